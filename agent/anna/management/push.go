package management

import (
	"context"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stategraft/stategraft/agent/anna/client/zmtp"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

const (
	// sendLimit bounds sending a list, and reaching who is to get it.
	sendLimit = 5 * time.Second
	// atOnce bounds the lists that are under way: anybody can name an address.
	atOnce = 256
	// threads is more than a node can have.
	threads = 50
)

// pushes are the lists that are under way, each to another address.
type pushes struct {
	mu   sync.Mutex
	busy map[string]bool
	wait sync.WaitGroup
}

// push sends the executors' addresses to where a KVS thread wants them. Each list goes over
// a connection of its own: a thread asks every 15 s, and one that is gone must not hold up
// anything. Only ports at which threads listen for it are dialled.
func (s *Server) push(ctx context.Context, to string) {
	host, ok := listens(to)
	if !ok {
		s.metrics.failed.Add(1)
		s.once("address:"+to, "a list of executors is wanted at an address that is no KVS thread's", "address", to)
		return
	}
	s.pushes.mu.Lock()
	defer s.pushes.mu.Unlock()
	if s.pushes.busy[host] || len(s.pushes.busy) >= atOnce || ctx.Err() != nil {
		s.metrics.failed.Add(1)
		return
	}
	s.pushes.busy[host] = true
	s.pushes.wait.Go(func() {
		err := s.send(ctx, host)
		s.pushes.mu.Lock()
		delete(s.pushes.busy, host)
		s.pushes.mu.Unlock()
		if err != nil {
			s.metrics.failed.Add(1)
			s.once("push:"+host, "a KVS thread does not take the list of executors", "address", host, "error", err)
			return
		}
		s.metrics.pushed.Add(1)
	})
}

func (s *Server) send(ctx context.Context, host string) error {
	ctx, cancel := context.WithTimeout(ctx, sendLimit)
	defer cancel()
	message := stringSet(s.executors.get(ctx))
	conn, err := zmtp.Dial(ctx, host, zmtp.Push)
	if err != nil {
		return err
	}
	defer conn.Close()
	until := time.Now().Add(sendLimit)
	if err := conn.SetWriteDeadline(until); err != nil {
		return err
	}
	if err := conn.Send(message); err != nil {
		return err
	}
	return conn.Finish(until)
}

// listens is host:port of an address at which a KVS thread takes lists.
func listens(address string) (string, bool) {
	rest, ok := strings.CutPrefix(address, "tcp://")
	host, port, err := net.SplitHostPort(rest)
	n, err2 := strconv.Atoi(port)
	if !ok || err != nil || err2 != nil || host == "" || n < wire.PortManagement || n >= wire.PortManagement+threads {
		return "", false
	}
	return rest, true
}
