package main

import (
	"os"
	"strings"
	"testing"
)

func Example() {
	dir, err := os.MkdirTemp("", "welcome")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	back, _ := os.Getwd()
	defer os.Chdir(back)
	if err := os.Chdir(dir); err != nil {
		panic(err)
	}
	main()
	// Output: welcome, user 7
}

// The README shows this program as it is.
func TestReadmeShowsThisProgram(t *testing.T) {
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(program), "type WelcomeArgs")
	if !strings.Contains(string(readme), "type WelcomeArgs"+strings.TrimSpace(shown)) {
		t.Error("README.md and examples/welcome/main.go differ")
	}
}
