package adopted

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// machine is a node with processes, and a clock.
type machine struct {
	t    *testing.T
	dir  string
	time time.Time
}

func (m *machine) memory(total, available int) {
	m.write("meminfo", fmt.Sprintf("MemTotal:       %d kB\nMemFree:   12 kB\nMemAvailable:   %d kB\n", total<<10, available<<10))
}

func (m *machine) process(pid, parent, mib int) {
	m.write(fmt.Sprintf("%d/status", pid), fmt.Sprintf("Name:\tx\nPPid:\t%d\nVmRSS:\t  %d kB\nRssAnon:\t   %d kB\n", parent, mib<<11, mib<<10))
}

func (m *machine) write(name, text string) {
	m.t.Helper()
	path := filepath.Join(m.dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

func newMachine(t *testing.T, memory int64) (*machine, *Pressure) {
	m := &machine{t: t, dir: t.TempDir(), time: time.Now()}
	p := NewPressure(memory, nothing)
	p.proc, p.now = m.dir, func() time.Time { return m.time }
	return m, p
}

// TestPressure plays what a node goes through: what runs is ended when the node has been
// short of memory for a while, unless it makes a backup, and comes back when it has not
// been for a while longer.
func TestPressure(t *testing.T) {
	t.Parallel()
	m, p := newMachine(t, 0)
	const total = 16 << 10 // of which the twentieth part is 819 MiB
	for i, step := range []struct {
		after     time.Duration
		available int
		backup    bool
		halts     bool
	}{
		{0, 4000, false, false},
		{time.Second, 800, false, false}, // a moment
		{time.Second, 900, false, false},
		{time.Second, 800, false, false},
		{3 * time.Second, 800, false, false},
		{time.Second, 4000, false, false}, // counts anew
		{time.Second, 800, false, false},
		{5 * time.Second, 800, true, false}, // short, but a backup goes on
		{time.Second, 800, false, true},
		{time.Hour, 1000, false, true}, // more, but not enough
		{time.Second, 1700, false, true},
		{59 * time.Second, 1700, false, true},
		{time.Second, 1000, false, true}, // not yet
		{time.Second, 1700, false, true},
		{time.Minute, 1700, false, false},
		{time.Second, 1000, false, false}, // as before
	} {
		m.time = m.time.Add(step.after)
		m.memory(total, step.available)
		err := p.Halt(step.backup)
		if (err != nil) != step.halts || err != nil && !errors.Is(err, ErrShort) {
			t.Errorf("step %d, %+v: %v", i, step, err)
		}
	}
	// Before a start no moment is waited for.
	m.memory(total, 500)
	if err := p.Wait(); !errors.Is(err, ErrShort) || err.Error() != "the node is short of memory: less than 819 MiB are available; Medusa comes back when 1638 MiB have been for a minute" {
		t.Errorf("%v", err)
	}
	m.memory(total, 2000)
	if err := p.Wait(); err == nil {
		t.Error("it starts at once")
	}
	m.time = m.time.Add(time.Minute)
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
}

func TestThreshold(t *testing.T) {
	t.Parallel()
	for total, want := range map[int64]int64{1 << 30: 200 << 20, 8 << 30: (8 << 30) / 20, 512 << 30: 1 << 30} {
		if got := threshold(total); got != want {
			t.Errorf("of %d: %d", total, got)
		}
	}
}

// TestUnknown: what cannot be read ends nothing.
func TestUnknown(t *testing.T) {
	t.Parallel()
	m, p := newMachine(t, 1<<30)
	for _, text := range []string{"", "MemTotal: 1 kB\n", "MemTotal: x kB\nMemAvailable: 0 kB\n", "MemTotal: 99999999999999999999 kB\nMemAvailable: 0 kB\n", "MemTotal:\nMemAvailable: 0 kB\n"} {
		m.write("meminfo", text)
		if err := errors.Join(p.Halt(false), p.Wait()); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	p.proc = filepath.Join(m.dir, "nowhere")
	if err := errors.Join(p.Halt(false), p.Wait()); err != nil {
		t.Error(err)
	}
}

// TestOver: what this program and all that comes from it take counts, and nobody else's;
// a backup is no excuse.
func TestOver(t *testing.T) {
	t.Parallel()
	m, p := newMachine(t, 100<<20)
	m.memory(16<<10, 8<<10)
	own := os.Getpid()
	for pid, process := range map[int][2]int{
		own: {1, 10}, 1: {0, 5000}, // the database, which shares its process namespace
		own + 1: {own, 50}, own + 2: {own + 1, 40}, own + 3: {1, 400},
		own + 4: {own + 5, 800}, own + 5: {own + 4, 800}, // a circle
	} {
		m.process(pid, process[0], process[1])
	}
	m.write("self/status", "x")
	m.write("9999999/other", "x")
	if got := used(m.dir, own); got != 100<<20 {
		t.Errorf("%d MiB are used", got>>20)
	}
	if err := p.Halt(true); err != nil {
		t.Error(err)
	}
	m.process(own+2, own+1, 41)
	for _, backup := range []bool{true, false} {
		if err := p.Halt(backup); !errors.Is(err, ErrOver) {
			t.Errorf("%v", err)
		}
	}
	if p.Memory = 0; p.Halt(false) != nil {
		t.Error("there is no bound")
	}
}

// TestUsed reads what the kernel says: a program that takes memory is seen.
func TestUsed(t *testing.T) {
	t.Parallel()
	own := used("/proc", os.Getpid())
	if own < 1<<20 || own > 4<<30 {
		t.Errorf("this program uses %d bytes", own)
	}
	command := exec.Command("/bin/sh", "-c", `x=$(head -c 50000000 /dev/zero | tr '\0' x); echo "${#x}"; read y`)
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if got := used("/proc", command.Process.Pid); got < 50_000_000 {
		t.Errorf("it uses %d bytes", got)
	}
	in.Close()
	_ = command.Wait()
	if got := used("/proc", command.Process.Pid); got != 0 {
		t.Errorf("what has ended uses %d bytes", got)
	}
}

// FuzzStatus: what the kernel never writes is nothing.
func FuzzStatus(f *testing.F) {
	f.Add([]byte("PPid:\t1\nRssAnon:\t 12 kB\n"))
	f.Add([]byte("PPid:\nRssAnon:\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if size, ok := kilobytes(text, "RssAnon:"); ok && size < 0 {
			t.Errorf("%d", size)
		}
		_ = parent(text)
	})
}
