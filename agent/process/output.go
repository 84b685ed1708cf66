package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"
)

// longest is how many bytes of a line are passed on as one.
const longest = 16 << 10

// Lines starts a program and passes each line of its output on, standard and
// error output together. The channel is closed when all has been passed on, or
// shortly after the program's end where something else keeps the output open.
func Lines(spec Spec, line func(string)) (*Process, <-chan struct{}, error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("start %s: %w", spec.Path, err)
	}
	p, err := start(spec, writer)
	writer.Close()
	if err != nil {
		reader.Close()
		return nil, nil, err
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		lines(reader, line)
	}()
	complete := make(chan struct{})
	go func() {
		defer close(complete)
		defer reader.Close()
		<-p.Done()
		select {
		case <-read:
		case <-time.After(2 * time.Second): // a grandchild holds it
			reader.Close()
			<-read
		}
	}()
	return p, complete, nil
}

func lines(reader io.Reader, line func(string)) {
	buffered := bufio.NewReaderSize(reader, longest)
	for {
		text, err := buffered.ReadSlice('\n')
		if trimmed := strings.TrimRight(string(text), "\r\n"); trimmed != "" {
			line(strings.ToValidUTF8(trimmed, "\uFFFD"))
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// Grace is how long a program has between the request to end and the end.
const Grace = 2 * time.Second

// Run runs a program to its end and passes on its lines. When the context ends
// first, the whole group is ended and the context's error is returned.
func Run(ctx context.Context, spec Spec, line func(string)) error {
	p, complete, err := Lines(spec, line)
	if err != nil {
		return err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Stop(Grace)
		<-complete
		return fmt.Errorf("run %s: %w", spec.Path, context.Cause(ctx))
	}
	// What the program left behind is not to go on by itself.
	p.Signal(syscall.SIGKILL)
	<-complete
	return p.Failed()
}

// Stop ends the group: it asks, and kills what is left after the grace.
func (p *Process) Stop(grace time.Duration) {
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(grace):
	}
	p.Signal(syscall.SIGKILL)
	<-p.done
}

// Tail keeps the last lines of an output.
type Tail struct {
	Size  int
	Lines []string
}

// Add appends a line and forgets the oldest.
func (t *Tail) Add(line string) {
	t.Lines = append(t.Lines, line)
	if len(t.Lines) > t.Size {
		t.Lines = t.Lines[1:]
	}
}

func (t *Tail) String() string { return strings.Join(t.Lines, "\n") }
