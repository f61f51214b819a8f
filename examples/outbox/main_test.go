package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

func Example() {
	dir, err := os.MkdirTemp("", "outbox")
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
	// a receipt for a kettle
	// <nil>
}
