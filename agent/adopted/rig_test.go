package adopted

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	switch os.Getenv("STATEGRAFT_TEST_MODE") {
	case "seat":
		sit()
		os.Exit(0)
	case "bound":
		tellBounds()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var nothing = slog.New(slog.DiscardHandler)

// sit is a container of a role: it writes to a log that others write to as well, and has
// a lock while it serves, which only one can have.
func sit() {
	dir := os.Getenv("STATEGRAFT_TEST_DIR")
	number, _ := strconv.Atoi(os.Getenv("STATEGRAFT_ADOPTED"))
	say := func(format string, args ...any) {
		log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
		if err == nil {
			fmt.Fprintf(log, "%d %s\n", number, fmt.Sprintf(format, args...))
			log.Close()
		}
	}
	s := Seat{
		PodUID: os.Getenv("POD_UID"), Role: RoleMedusa, Number: number, poll: 5 * time.Millisecond, limit: time.Hour,
		Busy: func() bool { _, err := os.Stat(filepath.Join(dir, "busy")); return err == nil },
		Log:  slog.New(slog.NewTextHandler(os.Stdout, nil)),
	}
	left, err := Own(context.Background(), s)
	if errors.Is(err, ErrNewer) {
		say("has a newer one")
		return
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o666)
	if err == nil {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		say("collides: %v", err)
		return
	}
	say("serves")
	<-left
	time.Sleep(50 * time.Millisecond) // its child ends
	say("leaves")
}

// seats are containers of one role of a pod.
type seats struct {
	t       *testing.T
	dir     string
	uid     string
	running map[int]*seated
}

type seated struct {
	*exec.Cmd
	out   buffer
	ended chan error
}

type buffer struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.text.String()
}

var pods = struct {
	sync.Mutex
	count int
}{}

// uid is that of a pod which no other test has.
func uid() string {
	pods.Lock()
	defer pods.Unlock()
	pods.count++
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", os.Getpid(), pods.count)
}

func newSeats(t *testing.T) *seats {
	return &seats{t: t, dir: t.TempDir(), uid: uid(), running: map[int]*seated{}}
}

func (s *seats) start(number int, change ...func(*exec.Cmd)) *seated {
	s.t.Helper()
	c := &seated{Cmd: exec.Command("/proc/self/exe"), ended: make(chan error, 1)}
	c.Env = []string{"STATEGRAFT_TEST_MODE=seat", "STATEGRAFT_TEST_DIR=" + s.dir, "POD_UID=" + s.uid, fmt.Sprintf("STATEGRAFT_ADOPTED=%d", number)}
	c.Stdout, c.Stderr = &c.out, &c.out
	for _, f := range change {
		f(c.Cmd)
	}
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.running[number] = c
	go func() { c.ended <- c.Wait() }()
	s.t.Cleanup(func() { _ = c.Process.Kill() })
	return c
}

// end waits for a container's end.
func (s *seats) end(number int) {
	s.t.Helper()
	select {
	case err := <-s.running[number].ended:
		if err != nil {
			s.t.Fatalf("%d ended with %v\n%s", number, err, s.running[number].out.String())
		}
	case <-time.After(time.Minute):
		s.t.Fatalf("%d does not end\n%s\n%s", number, s.running[number].out.String(), s.log())
	}
}

func (s *seats) log() string {
	text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	return string(text)
}

// said waits for a line of the log.
func (s *seats) said(line string) {
	s.t.Helper()
	eventually(s.t, line, func() bool { return strings.Contains("\n"+s.log(), "\n"+line+"\n") })
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

func logTo(out *buffer) *slog.Logger { return slog.New(slog.NewTextHandler(out, nil)) }
