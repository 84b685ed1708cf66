package restore

import (
	"bufio"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stategraft/stategraft/test/ports"
)

// echo answers lines, with its name before them.
func echo(t *testing.T, name string) (address string, port int) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				for lines := bufio.NewScanner(c); lines.Scan(); {
					fmt.Fprintf(c, "%s %s\n", name, lines.Text())
				}
			}()
		}
	}()
	return l.Addr().String(), l.Addr().(*net.TCPAddr).Port
}

type line struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func dial(t *testing.T, address string) line {
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return line{t, c, bufio.NewReader(c)}
}

// read answers a line, or nothing within the time.
func (l line) read(within time.Duration) string {
	_ = l.conn.SetReadDeadline(time.Now().Add(within))
	text, _ := l.in.ReadString('\n')
	return text
}

func TestHolder(t *testing.T) {
	address, _ := echo(t, "server")
	h, err := newHolder(address)
	if err != nil {
		t.Fatal(err)
	}
	defer h.stop()
	l := dial(t, h.listener.Addr().String())
	fmt.Fprintln(l.conn, "1")
	if got := l.read(time.Minute); got != "server 1\n" {
		t.Fatalf("got %q", got)
	}
	h.hold(true)
	fmt.Fprintln(l.conn, "2")
	fmt.Fprintln(l.conn, "3")
	if got := l.read(200 * time.Millisecond); got != "" {
		t.Errorf("got %q, which is held back", got)
	}
	h.hold(false)
	for _, want := range []string{"server 2\n", "server 3\n"} {
		if got := l.read(time.Minute); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestBalancer(t *testing.T) {
	_, a := echo(t, "a")
	_, b := echo(t, "b")
	nobody, err := ports.Row(1)
	if err != nil {
		t.Fatal(err)
	}
	lb, err := newBalancer()
	if err != nil {
		t.Fatal(err)
	}
	defer lb.stop()
	lb.to(a, nobody, b)
	seen := map[string]bool{}
	var open line
	for range 6 {
		open = dial(t, lb.listener.Addr().String())
		fmt.Fprintln(open.conn, "x")
		seen[open.read(time.Minute)] = true
	}
	if !seen["a x\n"] || !seen["b x\n"] || len(seen) != 2 {
		t.Errorf("answers %v", seen)
	}
	lb.shuffle()
	fmt.Fprintln(open.conn, "x")
	if got := open.read(time.Minute); got != "" {
		t.Errorf("%q on a connection that was ended", got)
	}
}
