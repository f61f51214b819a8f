package host_test

import (
	"fmt"
	"strings"

	"github.com/pawljobs/pawl/host"
)

func oneServer(workers int) []host.Server {
	return []host.Server{{Name: "one", Queues: []string{"3-bulk", "1-critical", "2-default"}, Workers: workers}}
}

// words prints values with one space between them.
func words(values ...any) string { return strings.TrimSpace(fmt.Sprintln(values...)) }

func hostServer(name string, workers int) host.Server {
	return host.Server{Name: name, Queues: []string{"1-critical", "2-default"}, Workers: workers}
}
