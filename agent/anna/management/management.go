// Package management answers the ports of hydro's management pod (hydro-project/cluster
// hydro/management/management_server.py) from the DNS, so that Anna and Cloudburst run
// without it: it wants kops, an administrator's kubeconfig and the names of pods from the
// Kubernetes API. What it did besides, adding and removing machines, is left to whoever
// scales the StatefulSets: what is said about that is taken, counted and thrown away, for
// a sender that nobody reads from stands still one day (a KVS thread after some hours).
package management

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/stategraft/stategraft/agent/anna/client/zmtp"
	"github.com/stategraft/stategraft/agent/anna/config"
)

// The ports, as upstream numbers them.
const (
	PortRestart    = 7000 // REP: restart:PRIVATE_IP, answered with a count
	PortChurn      = 7001 // PULL: add:N:TIER and remove:IP:TIER, of the monitor
	PortExecutors  = 7002 // PULL: where to push the addresses of executors to
	PortStatus     = 7003 // PULL: ThreadStatus of executors
	PortSchedulers = 7004 // REP: answered with the addresses of schedulers
	PortDeparted   = 7005 // PULL: an executor that has ended, by its address
	PortStatistics = 7006 // PULL: ExecutorStatistics
)

// Options are how a Server is made.
type Options struct {
	Config    config.Options
	Namespace string
	Resolver  config.Resolver
	Log       *slog.Logger
	// Address is where a port is bound, :PORT by default.
	Address func(port int) string
}

// Server answers until it is closed.
type Server struct {
	o          Options
	executors  *list
	schedulers *list
	pushes     pushes
	metrics    metrics

	mu        sync.Mutex
	said      map[string]time.Time
	listeners map[int]*zmtp.Listener
}

// Start binds all ports; the context bounds what is asked of the DNS and sent to nodes.
func Start(ctx context.Context, o Options) (*Server, error) {
	if o.Address == nil {
		o.Address = func(port int) string { return ":" + strconv.Itoa(port) }
	}
	s := &Server{o: o, said: map[string]time.Time{}, listeners: map[int]*zmtp.Listener{}}
	host := func(service string) string { return o.Config.Host(service, o.Namespace) }
	s.executors = &list{host: host(o.Config.Services.Executor), resolver: o.Resolver, log: o.Log}
	s.schedulers = &list{host: host(o.Config.Services.Scheduler), resolver: o.Resolver, log: o.Log}
	s.pushes.busy = map[string]bool{}
	for port, serve := range map[int]struct {
		kind zmtp.Type
		with func(*zmtp.Conn)
	}{
		PortRestart:    {zmtp.Rep, s.answering(PortRestart, s.restart)},
		PortSchedulers: {zmtp.Rep, s.answering(PortSchedulers, func([]byte) []byte { return stringSet(s.schedulers.get(ctx)) })},
		PortExecutors:  {zmtp.Pull, s.taking(PortExecutors, func(message []byte) { s.push(ctx, string(message)) })},
		PortChurn:      {zmtp.Pull, s.taking(PortChurn, s.churn)},
		PortStatus:     {zmtp.Pull, s.taking(PortStatus, nil)},
		PortDeparted:   {zmtp.Pull, s.taking(PortDeparted, nil)},
		PortStatistics: {zmtp.Pull, s.taking(PortStatistics, nil)},
	} {
		listener, err := zmtp.Listen(o.Address(port), serve.kind, serve.with)
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("start the management: %w", err)
		}
		s.listeners[port] = listener
	}
	return s, nil
}

// Port is where a port is bound.
func (s *Server) Port(port int) int { return s.listeners[port].Port() }

// Close ends it.
func (s *Server) Close() {
	for _, listener := range s.listeners {
		_ = listener.Close() // nobody is left to hear of it
	}
	s.pushes.wait.Wait()
}

// answering serves the connections of a REP socket. A request is an envelope that ends
// with the first empty frame, and a body, which may be empty (Cloudburst's schedulers
// send an empty one, behind a number of the request); the answer has the same envelope.
func (s *Server) answering(port int, answer func([]byte) []byte) func(*zmtp.Conn) {
	return func(conn *zmtp.Conn) {
		for {
			frames, err := conn.Recv()
			if err != nil {
				return
			}
			s.metrics.count(port)
			end := 0
			for end < len(frames) && len(frames[end]) > 0 {
				end++
			}
			if end == len(frames) {
				return // no REQ socket
			}
			var body []byte
			if end+1 < len(frames) {
				body = frames[end+1]
			}
			envelope := frames[: end+1 : end+1]
			if err := conn.SetWriteDeadline(time.Now().Add(sendLimit)); err != nil {
				return
			}
			if err := conn.Send(append(envelope, answer(body))...); err != nil {
				return
			}
		}
	}
}

// taking serves the connections of a PULL socket.
func (s *Server) taking(port int, take func([]byte)) func(*zmtp.Conn) {
	return func(conn *zmtp.Conn) {
		for {
			frames, err := conn.Recv()
			if err != nil {
				return
			}
			s.metrics.count(port)
			if take != nil && len(frames) == 1 {
				take(frames[0])
			}
		}
	}
}

// What a node that starts is told. It adds the number to its join, and its peers go by it
// (src/kvs/node_join_handler.cpp): with 0 those that do not know the node send it the keys
// that it takes over, with a greater one than before those that do know it as well. Either
// way they send fifty at a time, the same fifty for ever where there are more
// (src/kvs/server.cpp erases what is done from a copy), hide the rest, and block for good
// once the node is gone again and nobody reads what they send. Observed with 2,000 keys:
// 5 to 12 MB a second, and a peer that answers no one after the node was killed. With a
// number below 0 they take the node into their rings and send nothing, and stay well: the
// keys come by safe-join, and what that misses by kubectl stategraft repair.
const (
	countSafe  = "-1"
	countFirst = "0" // where there is no safe-join: fifty keys are better than none
)

func (s *Server) restart(request []byte) []byte {
	_, name, _ := strings.Cut(string(request), ":")
	s.once("restart:"+name, "a node has started", "node", name)
	if s.o.Config.SafeJoin {
		return []byte(countSafe)
	}
	return []byte(countFirst)
}

// churn is a monitor that wants machines added or removed.
func (s *Server) churn(message []byte) {
	s.once("churn:"+string(message), "the monitor asks for another number of nodes, and nothing is done: set policy.elasticity to false, and scale the StatefulSets", "message", string(message))
}

// once says the same at most every ten minutes.
func (s *Server) once(key, message string, args ...any) {
	const often, most = 10 * time.Minute, 1000
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if last, ok := s.said[key]; ok && now.Sub(last) < often {
		return
	}
	if len(s.said) >= most {
		clear(s.said)
	}
	s.said[key] = now
	s.o.Log.Info(message, args...)
}

// stringSet is common/proto/shared.proto's: repeated string keys = 1.
func stringSet(keys []string) []byte {
	out := []byte{}
	for _, key := range keys {
		out = protowire.AppendString(protowire.AppendTag(out, 1, protowire.BytesType), key)
	}
	return out
}

// list is the addresses behind a headless Service: addresses, not names, because they are
// compared with what executors and schedulers call themselves, and caches are looked up
// in Anna by them.
type list struct {
	host     string
	resolver config.Resolver
	log      *slog.Logger

	mu    sync.Mutex
	asked time.Time
	known []string
}

// fresh is how long an answer of the DNS is used: each thread of Anna asks every 15 s.
const fresh = 5 * time.Second

// get is the addresses now; those of the last answer where the DNS gives none, because
// what is not listed is taken as gone.
func (l *list) get(ctx context.Context) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.host == "" || time.Since(l.asked) < fresh {
		return l.known
	}
	// Schedulers wait half a second for an answer.
	ctx, cancel := context.WithTimeout(ctx, 400*time.Millisecond)
	defer cancel()
	found, err := config.Addresses(ctx, l.resolver, l.host)
	if err != nil {
		l.log.Warn("the DNS does not answer; the last list is given on", "service", l.host, "error", err)
		l.asked = time.Now()
		return l.known
	}
	var usable []string
	for _, address := range found {
		if net.ParseIP(address).To4() != nil {
			usable = append(usable, address)
		}
	}
	l.asked, l.known = time.Now(), usable
	return usable
}

func (l *list) length() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.known)
}
