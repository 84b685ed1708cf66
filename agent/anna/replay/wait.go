package replay

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// patience is the longest pause between two looks at the members.
const patience = 5 * time.Second

// wait waits until routing knows every node that is expected, and gives the number of
// KVS nodes that it knows. It never gives up: a key that is written before its node has
// joined may be lost.
func (r *run) wait(ctx context.Context) (int, error) {
	pause := r.Pause
	said := ""
	for {
		count, missing := r.members(ctx)
		if missing == "" {
			return count, nil
		}
		if said != missing {
			said = missing
			r.Log.Info("the replay waits: " + missing)
		}
		r.message(missing)
		r.tell()
		if err := sleep(ctx, pause); err != nil {
			return 0, err
		}
		pause = min(2*pause, patience, r.LongestPause)
	}
}

// members counts the KVS nodes, or says what is waited for.
func (r *run) members(ctx context.Context) (count int, missing string) {
	known, err := r.Client.Members(ctx)
	if err != nil {
		return 0, fmt.Sprintf("routing does not answer: %v", err)
	}
	servers := append(known.Of(wire.Memory), known.Of(wire.Disk)...)
	r.disk = map[string]bool{}
	for _, s := range known.Of(wire.Disk) {
		r.disk[s.Public] = true
	}
	if len(servers) == 0 {
		return 0, "routing knows no KVS node yet"
	}
	if r.Expect == nil {
		return len(servers), ""
	}
	expected, err := r.Expect(ctx)
	if err != nil {
		return 0, fmt.Sprintf("it is not known which nodes there should be: %v", err)
	}
	var names []string
	for _, m := range expected {
		if !m.among(servers) {
			names = append(names, m.Name)
		}
	}
	if len(names) > 0 {
		return 0, "not in the cluster yet: " + named(names)
	}
	return len(servers), ""
}

// among tells whether a node is one of the servers, by what these call themselves.
func (m Member) among(servers []wire.Server) bool {
	for _, s := range servers {
		for _, name := range []string{s.Private, s.Public} {
			if name == m.Name || label(name) == m.Name {
				return true
			}
			for _, address := range m.Addresses {
				if name == address {
					return true
				}
			}
		}
	}
	return false
}

// label is the first part of a DNS name, and of an address nothing.
func label(host string) string {
	if net.ParseIP(host) != nil {
		return ""
	}
	first, _, _ := strings.Cut(host, ".")
	return first
}

// mostNamed is how many are named in a message.
const mostNamed = 10

func named(names []string) string {
	if len(names) > mostNamed {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:mostNamed], ", "), len(names)-mostNamed)
	}
	return strings.Join(names, ", ")
}

func sleep(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
