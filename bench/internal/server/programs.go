package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// programs is the folder of the newest server's programs, which are installed by the command need where there are none.
func programs(ctx context.Context, need string) (string, error) {
	bin, err := findPrograms()
	if err == nil || need == "" {
		return bin, err
	}
	command := exec.CommandContext(ctx, need, "initdb", "postgresql")
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("install postgresql: %w", err)
	}
	return findPrograms()
}

func findPrograms() (string, error) {
	newest, found := 0, ""
	places, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil {
		return "", err
	}
	for _, place := range places {
		bin := filepath.Dir(place)
		if version, err := strconv.Atoi(filepath.Base(filepath.Dir(bin))); err == nil && version > newest {
			newest, found = version, bin
		}
	}
	if found != "" {
		return found, nil
	}
	initdb, err := exec.LookPath("initdb")
	if err == nil {
		initdb, err = filepath.EvalSymlinks(initdb)
	}
	if err != nil {
		return "", errors.New("postgresql's initdb is not found: install the package postgresql")
	}
	return filepath.Dir(initdb), nil
}
