// Command annanode is the programs of Anna and Cloudburst for tests, in one file:
// what it is it knows from the name it is called by. Package process describes them.
package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/stategraft/stategraft/test/annanode/process"
)

func main() {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if os.Getpid() == 1 {
		// Anna handles no signal, and the kernel gives the first process of a container
		// none that it does not handle; the runtime of Go does handle it.
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
	}
	os.Exit(process.Run(context.Background(), os.Args, log))
}
