package zmtp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"
)

func quiet() zmq4.Option { return zmq4.WithLogger(log.New(io.Discard, "", 0)) }

func listen(t *testing.T, kind Type) (address string, got <-chan [][]byte) {
	t.Helper()
	frames := make(chan [][]byte, 100)
	l, err := Listen("127.0.0.1:0", kind, func(c *Conn) {
		for {
			message, err := c.Recv()
			if err != nil {
				return
			}
			frames <- message
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(l.Port())), frames
}

var sizes = []int{0, 1, 255, 256, 65535, 1 << 20, 3<<20 + 1}

func TestBetweenOurselves(t *testing.T) {
	address, got := listen(t, Pull)
	conn, err := Dial(t.Context(), address, Push)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, size := range sizes {
		want := bytes.Repeat([]byte{byte(size)}, size)
		if err := conn.Send(want, nil, want); err != nil {
			t.Fatal(err)
		}
		frames := <-got
		if len(frames) != 3 || !bytes.Equal(frames[0], want) || len(frames[1]) != 0 || !bytes.Equal(frames[2], want) {
			t.Errorf("%d bytes are not the same", size)
		}
	}
	if err := conn.Finish(time.Now().Add(time.Minute)); err != nil {
		t.Error(err)
	}
}

func TestWithAnotherImplementation(t *testing.T) {
	address, got := listen(t, Pull)
	push := zmq4.NewPush(t.Context(), quiet())
	defer push.Close()
	if err := push.Dial("tcp://" + address); err != nil {
		t.Fatal(err)
	}
	pull := zmq4.NewPull(t.Context(), quiet())
	defer pull.Close()
	if err := pull.Listen("tcp://127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	conn, err := Dial(t.Context(), pull.Addr().String(), Push)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, size := range sizes {
		want := bytes.Repeat([]byte{byte(size)}, size)
		if err := push.Send(zmq4.NewMsg(want)); err != nil {
			t.Fatal(err)
		}
		if frames := <-got; len(frames) != 1 || !bytes.Equal(frames[0], want) {
			t.Errorf("%d bytes received are not the same", size)
		}
		if err := conn.Send(want); err != nil {
			t.Fatal(err)
		}
		if message, err := pull.Recv(); err != nil || !bytes.Equal(message.Frames[0], want) {
			t.Errorf("%d bytes sent are not the same: %v", size, err)
		}
	}
}

func TestTypesThatDoNotFit(t *testing.T) {
	address, _ := listen(t, Pull)
	if _, err := Dial(t.Context(), address, Req); !errors.Is(err, ErrProtocol) {
		t.Errorf("REQ to PULL: %v", err)
	}
}

// What keeps go-zeromq's listener from ever taking another connection.
func TestSilentPeersKeepNobodyOut(t *testing.T) {
	address, got := listen(t, Pull)
	for range 5 {
		silent, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
	}
	conn, err := Dial(t.Context(), address, Push)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Send([]byte("x")); err != nil {
		t.Fatal(err)
	}
	<-got
}

// Foreign bytes end their connection and nothing else.
func TestWhatIsNotZeroMQ(t *testing.T) {
	address, got := listen(t, Pull)
	hello := append(greeting(), ready(Push)...)
	old := greeting()
	old[10] = 2
	plain := greeting()
	copy(plain[12:], "PLAIN")
	for name, sent := range map[string][]byte{
		"HTTP":            []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n................................................................"),
		"ZMTP 2":          old,
		"other security":  plain,
		"no READY":        append(greeting(), 0, 1, 'x'),
		"endless READY":   append(greeting(), flagCommand|flagLong, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
		"torn READY":      append(greeting(), flagCommand, 8, 5, 'R', 'E', 'A', 'D', 'Y', 200, 1),
		"READY without":   append(greeting(), flagCommand, 6, 5, 'R', 'E', 'A', 'D', 'Y'),
		"a huge frame":    append(bytes.Clone(hello), flagLong, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
		"a negative size": append(bytes.Clone(hello), flagLong, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
	} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		conn.Write(sent)
		conn.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: the connection stays", name)
		}
		conn.Close()
	}
	if len(got) > 0 {
		t.Errorf("a message: %q", <-got)
	}
}

// A frame that is said to be large takes memory as its bytes come.
func TestLargeFrameGrows(t *testing.T) {
	if testing.Short() {
		t.Skip("200 MB")
	}
	address, got := listen(t, Pull)
	conn, err := Dial(t.Context(), address, Push)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	want := make([]byte, eager+eager/2)
	want[len(want)-1], want[eager] = 1, 2
	if err := conn.Send(want); err != nil {
		t.Fatal(err)
	}
	if frames := <-got; !bytes.Equal(frames[0], want) {
		t.Error("not the same")
	}
}

func TestCommandsAreSkipped(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	go theirs.Write([]byte{flagCommand, 5, 4, 'P', 'I', 'N', 'G', 0, 1, 'x'})
	frames, err := newConn(ours).Recv()
	if err != nil || len(frames) != 1 || string(frames[0]) != "x" {
		t.Errorf("%q, %v", frames, err)
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Dial(ctx, silent.Addr().String(), Push); err == nil {
		t.Error("a connection to nobody")
	}
}

func FuzzRecv(f *testing.F) {
	f.Add([]byte{0, 1, 'x'})
	f.Add([]byte{flagMore, 1, 'x', flagLong, 0, 0, 0, 0, 0, 0, 0, 2, 'y', 'z'})
	f.Add(append(greeting(), ready(Push)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		conn := newConn(&fed{Reader: bytes.NewReader(b)})
		for {
			if _, err := conn.Recv(); err != nil {
				break
			}
		}
		newConn(&fed{Reader: bytes.NewReader(b)}).handshake(Pull)
	})
}

// fed is a connection whose peer has sent some bytes and closed it.
type fed struct {
	net.Conn
	*bytes.Reader
}

func (f *fed) Read(b []byte) (int, error)  { return f.Reader.Read(b) }
func (f *fed) Write(b []byte) (int, error) { return len(b), nil }
