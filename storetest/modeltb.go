package storetest

import (
	"testing"

	"pgregory.net/rapid"
)

// modelTB makes one check of rapid look like a test of its own to the harness.
type modelTB struct {
	testing.TB
	rt *rapid.T
}

func (t *modelTB) Cleanup(f func())                  { t.rt.Cleanup(f) }
func (t *modelTB) Helper()                           { t.rt.Helper() }
func (t *modelTB) Fail()                             { t.rt.Fail() }
func (t *modelTB) FailNow()                          { t.rt.FailNow() }
func (t *modelTB) Failed() bool                      { return t.rt.Failed() }
func (t *modelTB) Error(args ...any)                 { t.rt.Error(args...) }
func (t *modelTB) Errorf(format string, args ...any) { t.rt.Errorf(format, args...) }
func (t *modelTB) Fatal(args ...any)                 { t.rt.Fatal(args...) }
func (t *modelTB) Fatalf(format string, args ...any) { t.rt.Fatalf(format, args...) }
func (t *modelTB) Log(args ...any)                   { t.rt.Log(args...) }
func (t *modelTB) Logf(format string, args ...any)   { t.rt.Logf(format, args...) }
