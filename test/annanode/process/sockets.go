package process

import (
	"context"
	"fmt"

	"github.com/stategraft/stategraft/test/annanode/zmtp"
)

// message is what came to a port.
type message struct {
	at   string
	body []byte
}

// sockets are those of a process that has no ring and no threads.
type sockets struct {
	listeners []*zmtp.Listener
	pushes    map[string]*zmtp.Push
	inbox     chan message
}

func newSockets() *sockets {
	return &sockets{pushes: map[string]*zmtp.Push{}, inbox: make(chan message, zmtp.HighWater)}
}

// pull binds PULL sockets whose messages come to the inbox.
func (s *sockets) pull(endpoints ...string) error {
	for _, at := range endpoints {
		l, err := zmtp.Pull(at, func(ctx context.Context, body []byte) {
			select {
			case s.inbox <- message{at, body}:
			case <-ctx.Done():
			}
		})
		if err != nil {
			return fmt.Errorf("binding %s: %w", at, err)
		}
		s.listeners = append(s.listeners, l)
	}
	return nil
}

func (s *sockets) reply(at string, answer func([]byte) []byte) error {
	l, err := zmtp.Reply(at, func(_ context.Context, body []byte) []byte { return answer(body) })
	if err != nil {
		return fmt.Errorf("binding %s: %w", at, err)
	}
	s.listeners = append(s.listeners, l)
	return nil
}

func (s *sockets) push(ctx context.Context, to string, body []byte) {
	if s.pushes[to] == nil {
		s.pushes[to] = zmtp.NewPush(to)
	}
	_ = s.pushes[to].Send(ctx, body) // fails when ctx ends only
}

func (s *sockets) close() {
	for _, l := range s.listeners {
		l.Close()
	}
	for _, p := range s.pushes {
		p.Close()
	}
}
