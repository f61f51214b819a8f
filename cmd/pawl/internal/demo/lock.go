package demo

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// lock is what keeps a second run out of a folder. It ends with the process that holds it, however that ends.
type lock struct{ file *os.File }

// errHeld means that another process, or another run in this one, has the lock.
var errHeld = errors.New("held")

// lock takes the folder for this run. The file stays when the run ends: to remove it would let two others in at once.
func (f folder) lock() (lock, error) {
	file, err := os.OpenFile(f.lockFile(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return lock{}, fmt.Errorf("lock folder: %w", err)
	}
	switch err := lockFile(file); {
	case errors.Is(err, errHeld):
		return lock{}, errors.Join(occupied(fmt.Sprintf("another demo%s is at work in folder %s: wait for it, or name another with --dir",
			holder(f.lockFile()), f)), file.Close())
	case err != nil:
		return lock{}, errors.Join(fmt.Errorf("lock folder: %w", err), file.Close())
	}
	if err := errors.Join(file.Truncate(0), writePID(file)); err != nil {
		return lock{}, errors.Join(fmt.Errorf("lock folder: %w", err), file.Close())
	}
	return lock{file}, nil
}

func writePID(file *os.File) error {
	_, err := fmt.Fprintf(file, "%d\n", os.Getpid())
	return err
}

// holder is who has the lock, as far as it can be read.
func holder(path string) string {
	text, err := os.ReadFile(path)
	if pid := strings.TrimSpace(string(text)); err == nil && pid != "" {
		return " (process " + pid + ")"
	}
	return ""
}

func (l lock) release() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
