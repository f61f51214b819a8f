package demo

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// folder is where a run keeps everything that it leaves behind.
type folder string

const (
	folderPrefix = "pawl-demo-"
	lockName     = "demo.lock"
)

func (f folder) input() string    { return filepath.Join(string(f), "signups.csv") }
func (f folder) store() string    { return filepath.Join(string(f), "pawl.db") }
func (f folder) log() string      { return filepath.Join(string(f), "pawl.log") }
func (f folder) mails() string    { return filepath.Join(string(f), "mails") }
func (f folder) alerts() string   { return filepath.Join(string(f), "alerts") }
func (f folder) profiles() string { return filepath.Join(string(f), "profiles.jsonl") }
func (f folder) lockFile() string { return filepath.Join(string(f), lockName) }

// newFolder makes the folder of a fresh run and takes it; the empty path stands for one of its own under the system's
// temporary folder. A folder that holds anything is refused, and left as it is.
func newFolder(path string) (folder, lock, error) {
	if path == "" {
		made, err := os.MkdirTemp("", folderPrefix)
		if err != nil {
			return "", lock{}, err
		}
		taken, err := folder(made).lock()
		return folder(made), taken, err
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", lock{}, err
	}
	f := folder(path)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return f, lock{}, err
	}
	if err := f.mustBeEmpty(); err != nil {
		return f, lock{}, err
	}
	taken, err := f.lock()
	if err == nil {
		err = f.mustBeEmpty() // another run may have come and gone
	}
	return f, taken, err
}

// mustBeEmpty passes over the lock: whoever holds it has begun nothing yet, or keeps others out.
func (f folder) mustBeEmpty() error {
	entries, err := os.ReadDir(string(f))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Name() != lockName {
			return occupied(fmt.Sprintf("folder %s must be empty for a fresh run; --resume continues the run that a folder holds", f))
		}
	}
	return nil
}

// oldFolder finds the folder of a run that is to be continued: the one that is named, else the latest under the
// system's temporary folder.
func oldFolder(path string) (folder, error) {
	if path == "" {
		return latestFolder(os.TempDir())
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(folder(path).input()); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return "", missing(fmt.Sprintf("folder %s holds no run to resume: it has no signups.csv", path))
		}
		return "", err
	}
	return folder(path), nil
}

// latestFolder passes over folders that others can enter: a run's own is private.
func latestFolder(temp string) (folder, error) {
	paths, err := filepath.Glob(filepath.Join(temp, folderPrefix+"*"))
	if err != nil {
		return "", err
	}
	var latest folder
	var at time.Time
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil || !info.IsDir() || !private(info) {
			continue
		}
		input, err := os.Stat(folder(path).input())
		if err == nil && input.ModTime().After(at) {
			latest, at = folder(path), input.ModTime()
		}
	}
	if latest == "" {
		return "", missing(fmt.Sprintf("no run to resume under %s: name its folder with --dir", temp))
	}
	return latest, nil
}

// fill makes what every run needs. The input comes last: a folder with a signups.csv is a run.
func (f folder) fill(input []byte) error {
	if err := f.makeBoxes(); err != nil {
		return err
	}
	unfinished := f.input() + ".part"
	if err := os.WriteFile(unfinished, input, 0o600); err != nil {
		return err
	}
	return os.Rename(unfinished, f.input())
}

func (f folder) makeBoxes() error {
	return errors.Join(os.MkdirAll(f.mails(), 0o700), os.MkdirAll(f.alerts(), 0o700))
}

// private reports that nobody else can enter a folder, where the system says so.
func private(info fs.FileInfo) bool {
	return runtime.GOOS == "windows" || info.Mode().Perm()&0o077 == 0
}

// openLog appends to the run's log.
func (f folder) openLog() (*os.File, error) {
	return os.OpenFile(f.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// readLines returns the whole lines of a file that is only ever appended to; none where there is no file.
func readLines(path string) ([][]byte, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	lines := bytes.Split(text, []byte("\n"))
	return lines[:len(lines)-1], nil // what follows the last line end was cut off
}
