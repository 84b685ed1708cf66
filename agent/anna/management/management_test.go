package management

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"

	"github.com/stategraft/stategraft/agent/anna/config"
	"github.com/stategraft/stategraft/agent/anna/config/fakedns"
)

// rig is a management, and what it says.
type rig struct {
	*Server
	zone *fakedns.Zone
	log  *text
}

type text struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (l *text) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.Write(p)
}

func (l *text) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.String()
}

const (
	executors  = "cloudburst-executor.prod.svc.cluster.local"
	schedulers = "cloudburst-scheduler.prod.svc.cluster.local"
)

func start(t *testing.T) rig { return startWith(t, config.DefaultOptions()) }

func startWith(t *testing.T, options config.Options) rig {
	t.Helper()
	r := rig{zone: &fakedns.Zone{}, log: &text{}}
	server, err := Start(t.Context(), Options{
		Config: options, Namespace: "prod", Resolver: r.zone,
		Log: slog.New(slog.NewTextHandler(r.log, nil)), Address: func(int) string { return "127.0.0.1:0" },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	r.Server = server
	return r
}

func (r rig) at(port int) string { return "tcp://127.0.0.1:" + strconv.Itoa(r.Port(port)) }

// socket is a real client's.
func socket(t *testing.T, make func(context.Context, ...zmq4.Option) zmq4.Socket, at string) zmq4.Socket {
	t.Helper()
	s := make(t.Context())
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Dial(at); err != nil {
		t.Fatal(err)
	}
	return s
}

func receive(t *testing.T, s zmq4.Socket) zmq4.Msg {
	t.Helper()
	type answer struct {
		message zmq4.Msg
		err     error
	}
	got := make(chan answer, 1)
	go func() {
		m, err := s.Recv()
		for err == io.EOF { // a connection's end: of one of several
			m, err = s.Recv()
		}
		got <- answer{m, err}
	}()
	select {
	case a := <-got:
		if a.err != nil {
			t.Fatal(a.err)
		}
		return a.message
	case <-time.After(time.Minute):
		t.Fatal("no answer")
	}
	panic("not reached")
}

func send(t *testing.T, s zmq4.Socket, frames ...string) {
	t.Helper()
	var all [][]byte
	for _, frame := range frames {
		all = append(all, []byte(frame))
	}
	if err := s.Send(zmq4.NewMsgFrom(all...)); err != nil {
		t.Fatal(err)
	}
}

// until waits for something that comes.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not come: " + what)
		}
	}
}

// keys reads a StringSet whose keys are short.
func keys(t *testing.T, message []byte) []string {
	t.Helper()
	var all []string
	for len(message) > 0 {
		if message[0] != 1<<3|2 || len(message) < 2 || len(message) < 2+int(message[1]) {
			t.Fatalf("no StringSet: %q", message)
		}
		all = append(all, string(message[2:2+message[1]]))
		message = message[2+message[1]:]
	}
	return all
}

// Each thread of a node asks, over a connection of its own, and must be answered before
// it starts.
func TestRestart(t *testing.T) {
	for count, safe := range map[string]bool{"-1": true, "0": false} {
		options := config.DefaultOptions()
		options.SafeJoin = safe
		r := startWith(t, options)
		for range 2 {
			s := socket(t, zmq4.NewReq, r.at(PortRestart))
			for range 2 {
				send(t, s, "restart:anna-memory-0.anna-memory.prod.svc.cluster.local")
				if got := receive(t, s).Bytes(); string(got) != count {
					t.Errorf("answered %q, want %s", got, count)
				}
			}
		}
		if n := strings.Count(r.log.String(), "a node has started"); n != 1 {
			t.Errorf("said %d times", n)
		}
	}
}

// Cloudburst's scheduler sends an empty request behind a number (REQ_CORRELATE).
func TestSchedulers(t *testing.T) {
	r := start(t)
	r.zone.Host(schedulers, "10.0.0.5", "fd00::5", "10.0.0.4")
	s := socket(t, zmq4.NewDealer, r.at(PortSchedulers))
	send(t, s, "\x00\x00\x00\x07", "", "")
	got := receive(t, s)
	if len(got.Frames) != 3 || string(got.Frames[0]) != "\x00\x00\x00\x07" || len(got.Frames[1]) != 0 {
		t.Fatalf("another envelope: %q", got.Frames)
	}
	if all := keys(t, got.Frames[2]); strings.Join(all, " ") != "10.0.0.4 10.0.0.5" {
		t.Errorf("schedulers %q", all)
	}
	// Without a body at all, as some libraries send it.
	send(t, s, "8", "")
	if got = receive(t, s); len(got.Frames) != 3 || string(got.Frames[0]) != "8" {
		t.Errorf("another envelope: %q", got.Frames)
	}
}

func TestSchedulersWithoutTheDNS(t *testing.T) {
	r := start(t)
	s := socket(t, zmq4.NewReq, r.at(PortSchedulers))
	ask := func() string {
		send(t, s, "?")
		return strings.Join(keys(t, receive(t, s).Bytes()), " ")
	}
	old := func() {
		r.schedulers.mu.Lock()
		defer r.schedulers.mu.Unlock()
		r.schedulers.asked = time.Time{}
	}
	if got := ask(); got != "" {
		t.Errorf("no such Service: %q", got)
	}
	r.zone.Host(schedulers, "10.0.0.4")
	r.schedulers.mu.Lock() // less than five seconds ago, however busy this machine is
	r.schedulers.asked = time.Now().Add(time.Hour)
	r.schedulers.mu.Unlock()
	if got := ask(); got != "" {
		t.Errorf("asked again at once: %q", got)
	}
	old()
	if got := ask(); got != "10.0.0.4" {
		t.Errorf("one scheduler: %q", got)
	}
	r.zone.Fail(true)
	old()
	if got := ask(); got != "10.0.0.4" {
		t.Errorf("the DNS does not answer, which is no reason to forget: %q", got)
	}
	r.zone.Fail(false)
	r.zone.Host(schedulers)
	old()
	if got := ask(); got != "" {
		t.Errorf("none is left: %q", got)
	}
}

// thread is a KVS thread that waits for lists, at an address where no other test is.
func thread(t *testing.T) (at string, s zmq4.Socket) {
	t.Helper()
	at = "tcp://127.83.7.1:7101"
	s = zmq4.NewPull(t.Context())
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Listen(at); err != nil {
		t.Skipf("no such loopback address here: %v", err)
	}
	return at, s
}

func TestExecutors(t *testing.T) {
	r := start(t)
	r.zone.Host(executors, "10.0.0.9", "10.0.0.8")
	at, kvs := thread(t)
	asking := socket(t, zmq4.NewPush, r.at(PortExecutors))
	for n := range int64(2) {
		send(t, asking, at)
		if got := keys(t, receive(t, kvs).Bytes()); strings.Join(got, " ") != "10.0.0.8 10.0.0.9" {
			t.Errorf("executors %q", got)
		}
		until(t, "the list is over", func() bool { return r.metrics.pushed.Load() == n+1 })
	}
}

// Threads that are gone, and addresses that are none, keep no one waiting.
func TestExecutorsOfTheGone(t *testing.T) {
	r := start(t)
	r.zone.Host(executors, "10.0.0.9")
	at, kvs := thread(t)
	asking := socket(t, zmq4.NewPush, r.at(PortExecutors))
	for _, gone := range []string{"tcp://127.83.7.2:7100", "tcp://127.83.7.3:7149", "tcp://127.0.0.1:22", "ipc:///tmp/x", "", "tcp://:7100", "tcp://a:b"} {
		send(t, asking, gone)
	}
	send(t, asking, at)
	if got := keys(t, receive(t, kvs).Bytes()); len(got) != 1 {
		t.Errorf("executors %q", got)
	}
	until(t, "seven failed", func() bool { return r.metrics.failed.Load() == 7 })
	if strings.Contains(r.log.String(), "127.0.0.1:22\" error") || !strings.Contains(r.log.String(), "no KVS thread's") {
		t.Errorf("log:\n%s", r.log)
	}
}

// What nobody reads is read here: a sender would stand still one day.
func TestSwallows(t *testing.T) {
	r := start(t)
	for port, kind := range map[int]string{PortChurn: "churn", PortStatus: "status", PortDeparted: "departed", PortStatistics: "statistics"} {
		s := socket(t, zmq4.NewPush, r.at(port))
		for range 3000 {
			send(t, s, "add:2:memory")
		}
		want := "stategraft_management_messages_total{kind=\"" + kind + "\"} 3000\n"
		until(t, want, func() bool { return strings.Contains(r.scrape(t), want) })
	}
	if n := strings.Count(r.log.String(), "set policy.elasticity to false"); n != 1 {
		t.Errorf("said %d times", n)
	}
}

func (r rig) scrape(t *testing.T) string {
	t.Helper()
	answer := httptest.NewRecorder()
	r.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	return answer.Body.String()
}

// A peer that says nothing, or nonsense, keeps the others from nothing.
func TestSilentPeer(t *testing.T) {
	r := start(t)
	for range 3 {
		conn, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(r.Port(PortRestart)))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	s := socket(t, zmq4.NewReq, r.at(PortRestart))
	send(t, s, "restart:x")
	if got := receive(t, s).Bytes(); string(got) != countSafe {
		t.Errorf("answered %q", got)
	}
}

func TestMetricsAndHealth(t *testing.T) {
	r := start(t)
	answer := httptest.NewRecorder()
	r.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/healthz", nil))
	if answer.Code != 200 {
		t.Errorf("health %d", answer.Code)
	}
	got := r.scrape(t)
	for _, want := range []string{"stategraft_management_executors 0\n", "stategraft_management_schedulers 0\n", `lists_total{result="sent"} 0`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

func TestStartNamesThePort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, err = Start(t.Context(), Options{
		Config: config.DefaultOptions(), Namespace: "prod", Resolver: &fakedns.Zone{}, Log: slog.New(slog.DiscardHandler),
		Address: func(int) string { return taken.Addr().String() },
	})
	if err == nil || !strings.Contains(err.Error(), taken.Addr().String()) {
		t.Errorf("%v", err)
	}
}

func TestFromEnvironment(t *testing.T) {
	env := map[string]string{"POD_NAMESPACE": "prod", "STATEGRAFT_LIFE_PORT": "9000"}
	e, err := FromEnvironment(func(name string) string { return env[name] })
	if err != nil || e.HTTP != ":9000" || e.Config != "/etc/anna" || e.Namespace != "prod" {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := FromEnvironment(func(string) string { return "" }); err == nil || !strings.Contains(err.Error(), "metadata.namespace") {
		t.Errorf("%v", err)
	}
}
