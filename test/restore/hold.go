package restore

import (
	"io"
	"net"
	"strconv"
	"sync"
)

// holder stands between a client and the API server, and can hold back whatever the
// server says. What a client watches comes late then, and in order, as where a
// network or a server is slow. It does not look into the connection, which is
// encrypted: all that the client asks meanwhile waits too.
type holder struct {
	listener net.Listener
	server   string

	mu     sync.Mutex
	change *sync.Cond
	held   bool
	conns  map[net.Conn]bool
}

func newHolder(server string) (*holder, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h := &holder{listener: l, server: server, conns: map[net.Conn]bool{}}
	h.change = sync.NewCond(&h.mu)
	go h.run()
	return h, nil
}

func (h *holder) url() string { return "https://" + h.listener.Addr().String() }

// hold holds back what the server says from now on.
func (h *holder) hold(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = on
	h.change.Broadcast()
}

func (h *holder) stop() {
	_ = h.listener.Close()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = false
	for c := range h.conns {
		_ = c.Close()
	}
	h.change.Broadcast()
}

func (h *holder) run() {
	for {
		c, err := h.listener.Accept()
		if err != nil {
			return
		}
		go h.serve(c)
	}
}

func (h *holder) serve(client net.Conn) {
	server, err := net.Dial("tcp", h.server)
	if err != nil {
		_ = client.Close()
		return
	}
	h.mu.Lock()
	h.conns[client], h.conns[server] = true, true
	h.mu.Unlock()
	end := sync.OnceFunc(func() {
		_, _ = client.Close(), server.Close()
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.conns, client)
		delete(h.conns, server)
		h.change.Broadcast()
	})
	go func() {
		_, _ = io.Copy(server, client)
		end()
	}()
	h.back(client, server)
	end()
}

// back gives the client what the server says. It reads on while it holds back: the
// API server ends a watch that is not read.
func (h *holder) back(client, server net.Conn) {
	var queue [][]byte
	over := false
	go func() {
		for {
			piece := make([]byte, 32<<10)
			n, err := server.Read(piece)
			h.mu.Lock()
			if n > 0 {
				queue = append(queue, piece[:n])
			}
			over = err != nil
			h.change.Broadcast()
			h.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	for {
		h.mu.Lock()
		for h.conns[client] && (h.held || len(queue) == 0 && !over) {
			h.change.Wait()
		}
		pieces := queue
		queue = nil
		finished := over && len(pieces) == 0 || !h.conns[client]
		h.mu.Unlock()
		if finished {
			return
		}
		for _, piece := range pieces {
			if _, err := client.Write(piece); err != nil {
				return
			}
		}
	}
}

func itoa(n int) string { return strconv.Itoa(n) }
