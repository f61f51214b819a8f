package sqlite

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/pawljobs/pawl"
)

func examined(t *testing.T, store *Store) map[string]pawl.Finding {
	t.Helper()
	findings, err := store.Examine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]pawl.Finding{}
	for _, f := range findings {
		if (f.Grade == pawl.GradeFine) != (f.Fix == "") || f.Text == "" {
			t.Errorf("%s is %s: %q, and the remedy is %q", f.Check, f.Grade, f.Text, f.Fix)
		}
		by[f.Check] = f
	}
	return by
}

func openExamined(t *testing.T) (*Store, *sql.DB) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jobs.db")
	store, err := Open(t.Context(), path, Config{})
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = db.Close(), store.Close() })
	return store, db
}

func TestExamineWhatIsWell(t *testing.T) {
	t.Parallel()
	store, _ := openExamined(t)
	findings := examined(t, store)
	for _, check := range []string{"file", "schema", "durability", "journal", "disk", "integrity"} {
		f, said := findings[check]
		if check == "disk" && runtime.GOOS != "linux" {
			continue
		}
		if !said || f.Grade != pawl.GradeFine {
			t.Errorf("%s is %s: %s", check, f.Grade, f.Text)
		}
	}
}

func TestExamineWhatIsNot(t *testing.T) {
	t.Parallel()
	store, db := openExamined(t)
	expect := func(check string, grade pawl.Grade, says string) {
		t.Helper()
		if f := examined(t, store)[check]; f.Grade != grade || !strings.Contains(f.Text, says) {
			t.Errorf("%s is %s: %s; want %s: … %s …", check, f.Grade, f.Text, grade, says)
		}
	}
	for _, c := range []struct{ statement, says string }{
		{`insert into pawl_schema (version, applied_at) values (999, 0)`, "and this program knows"},
		{`delete from pawl_schema where version > 1`, "and this program needs"},
	} {
		if _, err := db.ExecContext(t.Context(), c.statement); err != nil {
			t.Fatal(err)
		}
		expect("schema", pawl.GradeFault, c.says)
	}
	if err := os.Truncate(store.path+"-wal", walRisk+1); err != nil { // behind what is in it
		t.Fatal(err)
	}
	expect("journal", pawl.GradeRisk, "it has grown to 128 MiB")
	if err := os.Rename(store.path, store.path+".old"); err != nil {
		t.Fatal(err)
	}
	expect("file", pawl.GradeFault, "removed or replaced")
}

func TestExamineDamage(t *testing.T) {
	t.Parallel()
	store, db := openExamined(t)
	if _, err := db.ExecContext(t.Context(), `pragma wal_checkpoint(truncate)`); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(store.path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for page := int64(3); page < 12; page++ { // behind the schema
		if _, err := file.WriteAt([]byte("this is no page of a tree"), page*4096); err != nil {
			t.Fatal(err)
		}
	}
	if f := examined(t, store)["integrity"]; f.Grade == pawl.GradeFine {
		t.Errorf("of a damaged file it says %s: %s", f.Grade, f.Text)
	}
}

func TestExamineDisk(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		disk  disk
		grade pawl.Grade
		says  string
	}{
		{disk{free: 1 << 40}, pawl.GradeFine, "1024 GiB are free"},
		{disk{free: 100 << 20}, pawl.GradeRisk, "100 MiB are free"},
		{disk{free: 1 << 40, network: "NFS"}, pawl.GradeFault, "shared by NFS"},
	} {
		e := &examination{}
		e.judge(c.disk)
		if f := e.findings[0]; f.Grade != c.grade || !strings.Contains(f.Text, c.says) {
			t.Errorf("%+v: %s: %s", c.disk, f.Grade, f.Text)
		}
	}
	if _, err := diskOf(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a folder that is not there has a disk")
	}
}

func TestExamineAClosedStore(t *testing.T) {
	t.Parallel()
	store, _ := openExamined(t)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if findings, err := store.Examine(t.Context()); !errors.Is(err, pawl.ErrClosed) {
		t.Errorf("findings %v, error %v, want ErrClosed", findings, err)
	}
}
