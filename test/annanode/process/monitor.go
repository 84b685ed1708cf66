package process

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// monitor listens where the monitor does; it has no policies.
func monitor(ctx context.Context, log *slog.Logger) error {
	c, err := load(annaConfig, false)
	if err != nil {
		return err
	}
	common(c)
	c.at("monitoring").at("ip").text()
	c.at("monitoring").at("mgmt_ip").text()
	for _, policy := range []string{"elasticity", "selective-rep", "tiering"} {
		c.at("policy").at(policy).truth()
	}
	s := newSockets()
	defer s.close()
	done := endpoint("*", wire.PortDepartDone)
	if err := s.pull(endpoint("*", wire.PortMonitorNotify), endpoint("*", wire.PortMonitorResponse),
		done, endpoint("*", wire.PortFeedback)); err != nil {
		return err
	}
	stop, err := stats(func() any { return struct{}{} })
	if err != nil {
		return err
	}
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m := <-s.inbox:
			log.Info("a message", "at", m.at, "message", string(m.body))
			if m.at != done {
				continue
			}
			// Nodes acknowledge with the tier's name, the monitor wants its number.
			parts := strings.Split(string(m.body), "_")
			if _, err := strconv.Atoi(parts[min(2, len(parts)-1)]); err != nil {
				return aborted{fmt.Errorf("stoi: %w", err)}
			}
		}
	}
}
