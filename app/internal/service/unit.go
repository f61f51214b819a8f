package service

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Unit is the definition as a unit of systemd; see systemd.service(5), systemd.exec(5).
func (d Definition) Unit() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	user := d.User
	line("[Unit]")
	line("Description=%s", escapeUnit(d.Description))
	line("Wants=network-online.target")
	line("After=network-online.target")
	line("StartLimitIntervalSec=0")
	line("")
	line("[Service]")
	line("Type=notify")
	line("NotifyAccess=main")
	line("ExecStart=%s", commandLine(append([]string{d.Program}, d.Args...)))
	line("ExecReload=/bin/kill -HUP $MAINPID")
	line("KillMode=mixed")
	line("Restart=on-failure")
	line("RestartSec=%d", int(RestartAfter.Seconds()))
	line("TimeoutStopSec=%d", int((d.Stop+time.Second-1)/time.Second))
	line("WatchdogSec=60")
	line("")
	line("# A user of its own, and no way to more.")
	if user == "" {
		line("DynamicUser=yes")
		user = d.Name
	}
	line("User=%s", escapeUnit(user))
	line("StateDirectory=%s", d.Name)
	line("StateDirectoryMode=0700")
	line("UMask=0077")
	line("NoNewPrivileges=yes")
	line("ProtectSystem=strict")
	line("ProtectHome=%s", d.home())
	for _, path := range d.Writes {
		line("ReadWritePaths=-%s", quoteUnit(path))
	}
	for _, setting := range []string{
		"PrivateTmp", "PrivateDevices", "ProtectClock", "ProtectControlGroups", "ProtectHostname", "ProtectKernelLogs",
		"ProtectKernelModules", "ProtectKernelTunables", "RestrictNamespaces", "RestrictRealtime", "RestrictSUIDSGID",
		"LockPersonality", "MemoryDenyWriteExecute", "RemoveIPC",
	} {
		line("%s=yes", setting)
	}
	line("ProtectProc=invisible")
	line("CapabilityBoundingSet=")
	line("RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK")
	line("SystemCallArchitectures=native")
	line("SystemCallFilter=@system-service")
	line("SystemCallErrorNumber=EPERM")
	line("")
	line("[Install]")
	line("WantedBy=multi-user.target")
	return b.String()
}

// home hides the homes, unless the program or what it reads lies in one.
func (d Definition) home() string {
	for _, path := range slices.Concat([]string{d.Program}, d.Reads, d.Writes) {
		for _, home := range []string{"/home/", "/root/", "/run/user/"} {
			if strings.HasPrefix(path, home) {
				return "read-only"
			}
		}
	}
	return "yes"
}

// commandLine quotes words for systemd, which splits the line, and replaces $ and %.
func commandLine(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = strings.ReplaceAll(quoteUnit(word), "$", "$$")
	}
	return strings.Join(quoted, " ")
}

func quoteUnit(word string) string {
	plain := strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=@,+") == ""
	if plain && word != "" {
		return word
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%").Replace(word) + `"`
}

func escapeUnit(text string) string { return strings.ReplaceAll(text, "%", "%%") }
