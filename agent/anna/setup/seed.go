package setup

import (
	"context"
	"sync"
	"time"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// seedLimit is for the routing nodes to say whom they know.
const seedLimit = 5 * time.Second

// seed is the routing node that a data node asks for the others at its start. It asks that
// one alone, and waits for it for ever (src/kvs/server.cpp); and the first one may be gone
// though the DNS names it, as it does for as long as the object of a lost machine is there.
// So it is the first that knows of a data node; else, where there is none yet, the first that
// answers; else the first.
func (s *Setup) seed(ctx context.Context, routing []string) string {
	if s.Members == nil || len(routing) == 1 {
		return routing[0]
	}
	ctx, cancel := context.WithTimeout(ctx, seedLimit)
	defer cancel()
	const answers, knows = 1, 2
	found := make([]int, len(routing))
	var all sync.WaitGroup
	for i, host := range routing {
		all.Go(func() {
			if m, err := s.Members(ctx, host); err == nil {
				if found[i] = answers; len(m.Of(wire.Memory))+len(m.Of(wire.Disk)) > 0 {
					found[i] = knows
				}
			}
		})
	}
	all.Wait()
	for _, wanted := range []int{knows, answers} {
		for i, is := range found {
			if is == wanted {
				if i > 0 {
					s.Log.Info("the first routing node does not answer, or knows nobody yet; this node asks another", "first", routing[0], "asked", routing[i])
				}
				return routing[i]
			}
		}
	}
	return routing[0]
}
