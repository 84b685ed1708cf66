package adopted

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestTakeOver: the older leaves before the newer serves, and one that is older than who
// serves has nothing to do.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	s := newSeats(t)
	s.start(2)
	s.said("2 serves")
	s.start(5)
	s.said("5 serves")
	s.end(2)
	s.start(3)
	s.end(3)
	want := "2 serves\n2 leaves\n5 serves\n3 has a newer one\n"
	if got := s.log(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	ctx := t.Context()
	for _, number := range []int{2, 5} {
		eventually(t, "it is seen that it was taken", func() bool { return Taken(ctx, s.uid, RoleMedusa, number) })
	}
	if Taken(ctx, s.uid, RoleMedusa, 6) || Taken(ctx, s.uid, RoleSnapshot, 2) || Taken(ctx, uid(), RoleMedusa, 2) {
		t.Error("another role, or another pod, has taken it")
	}
}

// TestAllAtOnce: whoever comes first, the newest serves in the end, and never two.
func TestAllAtOnce(t *testing.T) {
	t.Parallel()
	s := newSeats(t)
	const last = 6
	for number := 1; number <= last; number++ {
		s.start(number)
	}
	for number := 1; number < last; number++ {
		s.end(number)
	}
	s.said("6 serves")
	if log := s.log(); strings.Contains(log, "collides") {
		t.Errorf("two have served at once\n%s", log)
	}
	select {
	case err := <-s.running[last].ended:
		t.Errorf("the newest ended: %v", err)
	default:
	}
}

// TestCrashed: nothing is left of one that was killed, not even to an older one.
func TestCrashed(t *testing.T) {
	t.Parallel()
	s := newSeats(t)
	killed := s.start(7)
	s.said("7 serves")
	s.start(9)
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.said("9 serves")
	if err := s.running[9].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-s.running[9].ended
	s.start(4)
	s.said("4 serves")
	if log := s.log(); strings.Contains(log, "collides") {
		t.Errorf("two have served at once\n%s", log)
	}
}

// TestFrozen: one that does not answer is waited for, and does not keep a newer one from
// serving when it goes.
func TestFrozen(t *testing.T) {
	t.Parallel()
	s := newSeats(t)
	frozen := s.start(1)
	s.said("1 serves")
	if err := frozen.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	newer := s.start(2)
	eventually(t, "it says what it waits for", func() bool { return strings.Contains(newer.out.String(), "waiting to serve") })
	if err := frozen.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	s.said("2 serves")
	s.end(1)
}

// TestWaitsForABackup: the older goes on while it is busy, and others see that.
func TestWaitsForABackup(t *testing.T) {
	t.Parallel()
	s := newSeats(t)
	busy := filepath.Join(s.dir, "busy")
	if err := os.WriteFile(busy, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	older := s.start(1)
	s.said("1 serves")
	eventually(t, "it is told who is busy", func() bool { return Busy(t.Context(), s.uid, RoleMedusa) })
	if Busy(t.Context(), s.uid, RoleSnapshot) {
		t.Error("another role is told as busy")
	}
	newer := s.start(2)
	eventually(t, "the older hears of the newer", func() bool { return strings.Contains(older.out.String(), "a newer container is to serve") })
	eventually(t, "the newer has the binary", func() bool { return Taken(t.Context(), s.uid, RoleMedusa, 2) })
	eventually(t, "the newer says what it waits for", func() bool {
		return strings.Contains(newer.out.String(), "waiting for the older container to leave")
	})
	if log := s.log(); log != "1 serves\n" {
		t.Errorf("%s\n%s", log, newer.out.String())
	}
	if err := os.Remove(busy); err != nil {
		t.Fatal(err)
	}
	s.said("2 serves")
	s.end(1)
	if Busy(t.Context(), s.uid, RoleMedusa) {
		t.Error("a backup that has ended still goes on")
	}
}

// TestNotForEver: a backup that never ends is not waited for without limit; a held one is
// not begun.
func TestNotForEver(t *testing.T) {
	t.Parallel()
	always := func() bool { return true }
	for name, seat := range map[string]Seat{
		"busy":          {Busy: always, limit: time.Millisecond},
		"never held":    {Busy: always, Hold: func() bool { return false }, limit: time.Millisecond},
		"held in turn":  {Busy: always, Hold: always, limit: time.Hour},
		"knows nothing": {limit: time.Hour},
	} {
		seat.poll, seat.Log = time.Millisecond, nothing
		h := &holder{Seat: seat, left: make(chan struct{})}
		h.depart(2)
		select {
		case <-h.left:
		default:
			t.Errorf("%s: it stays", name)
		}
	}
}

// TestGivenUp: who waits for its turn ends when it is asked to.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	pod := uid()
	if _, err := Own(t.Context(), Seat{PodUID: pod, Role: RoleAgent, Number: 1, Busy: func() bool { return true }}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	done := make(chan error)
	go func() {
		_, err := Own(ctx, Seat{PodUID: pod, Role: RoleAgent, Number: 2})
		done <- err
	}()
	eventually(t, "it waits", func() bool { return Taken(t.Context(), pod, RoleAgent, 2) })
	cancel(stopped)
	if err := <-done; !errors.Is(err, stopped) {
		t.Errorf("%v", err)
	}
}

// TestStrangers: another user's process is not heard.
func TestStrangers(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can be another user")
	}
	s := newSeats(t)
	if err := os.Chmod(s.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	s.start(1)
	s.said("1 serves")
	stranger := s.start(2, func(c *exec.Cmd) {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	})
	eventually(t, "the stranger says that it waits", func() bool { return strings.Contains(stranger.out.String(), "waiting to serve") })
	if log := s.log(); log != "1 serves\n" {
		t.Errorf("a stranger was heard\n%s", log)
	}
	// Nor is the stranger believed that it has taken anything.
	if Taken(t.Context(), s.uid, RoleMedusa, 2) {
		t.Error("a stranger is believed")
	}
}

// TestNonsense: what cannot be understood is not answered, and does not keep anybody from
// being answered.
func TestNonsense(t *testing.T) {
	t.Parallel()
	pod := uid()
	left, err := Own(t.Context(), Seat{PodUID: pod, Role: RoleAgent, Number: 4})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"{\n", "leave\n", "[1, 2]\n", `{"number": "5", "leave": true}` + "\n", `{"number": 1e9` + strings.Repeat(" ", 2*talkLimit) + `, "leave": true}` + "\n",
		`{"number": 4, "leave": true}` + "\n", `{"number": -5, "leave": true}` + "\n", `{"leave": true}` + "\n"} {
		conn, err := net.Dial("unix", address(pod, RoleAgent))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, text) // it may have hung up in the middle
		_, _ = io.Copy(io.Discard, conn)
		conn.Close()
		if a, err := ask(t.Context(), address(pod, RoleAgent), request{}); err != nil || a != (reply{Number: 4}) {
			t.Errorf("after %.40q: %+v, %v", text, a, err)
		}
	}
	// A waiting container's own address is for questions alone.
	if a, err := ask(t.Context(), own(pod, RoleAgent, 4), request{Number: 5, Leave: true}); err != nil || a.Leaving {
		t.Errorf("%+v, %v", a, err)
	}
	select {
	case <-left:
		t.Error("it leaves")
	default:
	}
	if a, err := ask(t.Context(), address(pod, RoleAgent), request{Number: 5, Leave: true}); err != nil || !a.Leaving {
		t.Errorf("%+v, %v", a, err)
	}
	<-left
}
