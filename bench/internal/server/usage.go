package server

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Reading is what the server has used so far.
type Reading struct {
	CPU time.Duration // of all its processes
	WAL int64         // bytes written to the log
}

// Read looks at the server's counters.
func (s *Server) Read(ctx context.Context) (Reading, error) {
	var r Reading
	if err := s.admin.QueryRow(ctx, `select (pg_current_wal_insert_lsn() - '0/0')::bigint`).Scan(&r.WAL); err != nil {
		return r, fmt.Errorf("read log position: %w", err)
	}
	var err error
	if r.CPU, err = familyCPU(s.command.Process.Pid); err != nil {
		return r, fmt.Errorf("read processor time: %w", err)
	}
	return r, nil
}

// tick is the unit of times in /proc/<pid>/stat, for every program (proc(5), sysconf(3): 100 a second).
const tick = 10 * time.Millisecond

// familyCPU is the processor time of a process, of its children, and of the children that have ended.
func familyCPU(parent int) (time.Duration, error) {
	own, err := readStat(parent)
	if err != nil {
		return 0, err
	}
	total := processCPU(parent, own) + own.reaped
	places, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, place := range places {
		pid, err := strconv.Atoi(filepath.Base(place))
		if err != nil {
			continue
		}
		if stat, err := readStat(pid); err == nil && stat.parent == parent { // it may end meanwhile
			total += processCPU(pid, stat)
		}
	}
	return total, nil
}

// processCPU is the time of one process, to the nanosecond where the kernel tells.
func processCPU(pid int, stat stat) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
	if err != nil {
		return stat.used
	}
	fields := strings.Fields(string(text))
	if len(fields) == 0 {
		return stat.used
	}
	nanos, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil || nanos == 0 {
		return stat.used
	}
	return time.Duration(nanos)
}

// stat is what proc(5) calls ppid; utime and stime; cutime and cstime.
type stat struct {
	parent       int
	used, reaped time.Duration
}

func readStat(pid int) (stat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // from the third on: the name may have spaces
	if len(fields) < 15 {
		return stat{}, fmt.Errorf("process %d: unexpected %q", pid, text)
	}
	var numbers [5]int64
	for i, field := range []int{1, 11, 12, 13, 14} {
		if numbers[i], err = strconv.ParseInt(fields[field], 10, 64); err != nil {
			return stat{}, fmt.Errorf("process %d: %w", pid, err)
		}
	}
	return stat{
		parent: int(numbers[0]),
		used:   time.Duration(numbers[1]+numbers[2]) * tick,
		reaped: time.Duration(numbers[3]+numbers[4]) * tick,
	}, nil
}
