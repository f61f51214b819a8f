package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func Example() {
	dir, err := os.MkdirTemp("", "welcome")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	back, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	defer os.Chdir(back)
	if err := os.Chdir(dir); err != nil {
		panic(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Second)
	defer stop()
	fmt.Println(run(ctx))
	// Output:
	// welcome, user 7
	// <nil>
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
	_, shown, found := strings.Cut(string(program), "\n)\n\n") // the imports end here
	if !found || !strings.Contains(string(readme), "```go\n"+shown+"```") {
		t.Error("README.md and examples/welcome/main.go differ")
	}
}
