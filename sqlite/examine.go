package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pawljobs/pawl"
)

const (
	walRisk     = 128 << 20 // bytes: what the journal of a rush keeps, and as much again
	spaceRisk   = 256 << 20 // bytes that are free on the disk
	checkedSize = 1 << 30   // bytes: a larger file is not read as a whole
)

// examination collects findings.
type examination struct {
	store    *Store
	x        execer
	findings []pawl.Finding
}

func (e *examination) add(check string, grade pawl.Grade, text, fix string) {
	e.findings = append(e.findings, pawl.Finding{Check: check, Grade: grade, Text: text, Fix: fix})
}

// Examine looks at the file and its disk, the tables' version, the settings that durability rests on, what keeps the journal
// from being written back, and whether the file is sound; the last reads all of it, up to a gigabyte.
func (s *Store) Examine(ctx context.Context) ([]pawl.Finding, error) {
	e := &examination{store: s}
	for _, check := range []struct {
		name string
		run  func(ctx context.Context) error
	}{
		{"file", e.file},
		{"schema", e.schema},
		{"durability", e.durability},
		{"journal", e.journal},
		{"disk", e.disk},
		{"integrity", e.integrity},
	} {
		err := s.view(ctx, func(x execer) error {
			e.x = x
			return check.run(ctx)
		})
		switch {
		case err != nil && (check.name == "file" || errors.Is(err, pawl.ErrClosed)):
			return nil, fmt.Errorf("examine: %w", err)
		case err != nil:
			e.add(check.name, pawl.GradeRisk, "this could not be looked at: "+err.Error(), "see the reason, and look again")
		}
	}
	return e.findings, nil
}

func (e *examination) file(context.Context) error {
	if err := e.store.writer.place.check(); err != nil {
		e.add("file", pawl.GradeFault, err.Error(), "put the file back, or restart the program")
		return nil
	}
	info, err := os.Stat(e.store.path)
	if err != nil {
		return err
	}
	e.add("file", pawl.GradeFine, fmt.Sprintf("%s, %s", e.store.path, size(info.Size())), "")
	return nil
}

func (e *examination) schema(ctx context.Context) error {
	version, found, err := selectOne(ctx, e.x, scanValue[int], `select coalesce(max(version), 0) from pawl_schema`)
	if err != nil || !found {
		return err
	}
	texts, err := steps()
	if err != nil {
		return err
	}
	text := fmt.Sprintf("the tables are at version %d", version)
	switch {
	case version < len(texts):
		e.add("schema", pawl.GradeFault, fmt.Sprintf("%s and this program needs %d", text, len(texts)), "run `pawl migrate up`")
	case version > len(texts):
		e.add("schema", pawl.GradeFault, fmt.Sprintf("%s and this program knows %d", text, len(texts)), "run a newer release")
	default:
		e.add("schema", pawl.GradeFine, text, "")
	}
	return nil
}

func (e *examination) durability(ctx context.Context) error {
	mode, _, err := selectOne(ctx, e.x, scanValue[string], `pragma journal_mode`)
	if err != nil {
		return err
	}
	level, _, err := selectOne(ctx, e.x, scanValue[int], `pragma synchronous`)
	if err != nil {
		return err
	}
	if mode != "wal" || level < 2 {
		e.add("durability", pawl.GradeFault, fmt.Sprintf("the file is in journal mode %s, synchronous %d", mode, level),
			"let nothing change these settings: wal, and 2 (full) or more")
		return nil
	}
	e.add("durability", pawl.GradeFine, "an acknowledged job is on disk", "")
	return nil
}

func (e *examination) journal(context.Context) error {
	info, err := os.Stat(e.store.path + "-wal")
	if errors.Is(err, fs.ErrNotExist) {
		e.add("journal", pawl.GradeFine, "it is written back", "")
		return nil
	}
	if err != nil {
		return err
	}
	if info.Size() > walRisk {
		e.add("journal", pawl.GradeRisk, fmt.Sprintf("it has grown to %s, since something reads for long and it cannot be written back meanwhile", size(info.Size())),
			"end the transaction that has been reading for so long")
		return nil
	}
	e.add("journal", pawl.GradeFine, "it has "+size(info.Size()), "")
	return nil
}

func (e *examination) disk(context.Context) error {
	disk, err := diskOf(filepath.Dir(e.store.path))
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		e.add("disk", pawl.GradeRisk, "how much of it is free cannot be told on this system", "look yourself, and have it watched")
	case err != nil:
		return err
	default:
		e.judge(disk)
	}
	return nil
}

// disk is what the file lies on.
type disk struct {
	free    int64  // bytes
	network string // the protocol of a network file system, "" for others
}

func (e *examination) judge(d disk) {
	switch {
	case d.network != "":
		e.add("disk", pawl.GradeFault, "it is shared by "+d.network+": locks and shared memory do not hold there, and the file can be destroyed",
			"move the file to a local disk, or use PostgreSQL")
	case d.free < spaceRisk:
		e.add("disk", pawl.GradeRisk, fmt.Sprintf("%s are free", size(d.free)), "make room: when it is full, nothing can be enqueued or recorded")
	default:
		e.add("disk", pawl.GradeFine, fmt.Sprintf("%s are free", size(d.free)), "")
	}
}

func (e *examination) integrity(ctx context.Context) error {
	info, err := os.Stat(e.store.path)
	if err != nil {
		return err
	}
	if info.Size() > checkedSize {
		e.add("integrity", pawl.GradeRisk, fmt.Sprintf("the file has %s and was not read as a whole", size(info.Size())), "run `pragma quick_check` in a quiet hour")
		return nil
	}
	said, _, err := selectOne(ctx, e.x, scanValue[string], `pragma quick_check(1)`)
	if err != nil {
		return err
	}
	if said != "ok" {
		e.add("integrity", pawl.GradeFault, "the file is damaged: "+said, "stop all programs that use it, keep a copy, and restore a backup")
		return nil
	}
	e.add("integrity", pawl.GradeFine, "the file is sound", "")
	return nil
}

// size is a number of bytes for people.
func size(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}
