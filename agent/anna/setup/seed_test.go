package setup

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/config"
	"github.com/stategraft/stategraft/agent/anna/management"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

// Anna asks one routing node for the others, and waits for it for ever. That of a machine
// that is lost stays in the DNS, and does not answer.
func TestSeedAnswers(t *testing.T) {
	some := wire.Membership{Tiers: []wire.TierServers{{Tier: wire.Memory, Servers: []wire.Server{{Public: "m", Private: "m"}}}}}
	for name, c := range map[string]struct {
		first, second string // dead, empty or some
		want          int
	}{
		"both know the nodes":              {"some", "some", 0},
		"the first is lost":                {"dead", "some", 1},
		"the first was started anew":       {"empty", "some", 1},
		"no data node is there yet":        {"empty", "empty", 0},
		"the second is there, and new":     {"dead", "empty", 1},
		"the cluster starts, nobody is up": {"dead", "dead", 0},
	} {
		r := newRig(t, KindAnna, config.RoleMemory)
		says := map[string]string{routingNodes[0]: c.first, routingNodes[1]: c.second}
		r.Members = func(ctx context.Context, host string) (wire.Membership, error) {
			if _, limited := ctx.Deadline(); !limited || ctx.Err() != nil {
				t.Errorf("%s: it could wait for ever, or not at all: %v", name, ctx.Err())
			}
			switch says[host] {
			case "some":
				return some, nil
			case "empty":
				return wire.Membership{}, nil
			}
			return wire.Membership{}, errors.New("refused")
		}
		if e := r.run(t); e.Seed != routingNodes[c.want] || len(e.Routing) != 2 {
			t.Errorf("%s: %s is asked, of %v", name, e.Seed, e.Routing)
		}
	}
}

// What a pod's container does by default is what this is for.
func TestEnvironmentAsks(t *testing.T) {
	s, err := FromEnvironment(func(string) string { return "" }, nil)
	if err != nil || s.Members == nil || s.Listens == nil {
		t.Errorf("nobody is asked: %v", err)
	}
}

// A management whose Service is there and that does not answer keeps Anna from serving.
func TestSilentManagementIsTold(t *testing.T) {
	for role, want := range map[string]bool{config.RoleMemory: true, config.RoleDisk: true, config.RoleRouting: false, config.RoleMonitoring: false} {
		for _, there := range []bool{false, true} {
			r := newRig(t, KindAnna, role)
			r.Listens = func(_ context.Context, name string, port int) bool {
				if name != host("hydro-management") || port != management.PortRestart {
					t.Errorf("%s: %s:%d is asked", role, name, port)
				}
				return there
			}
			if e := r.run(t); want && e.Management != host("hydro-management") {
				t.Errorf("%s: %+v", role, e)
			}
			if told := strings.Contains(r.log.String(), "nobody answers for the management"); told != (want && !there) {
				t.Errorf("%s, answers %v: told %v\n%s", role, there, told, r.log)
			}
		}
	}
}

// Anna takes no IPv6 address, and a name that leads to nothing else has it hang at the first
// key. Of a pod that has both it uses the IPv4 one.
func TestNameWithIPv6(t *testing.T) {
	for name, c := range map[string]struct {
		pod   string
		found []string
		fails bool
	}{
		"a cluster of IPv6 only":           {"fd00::7", []string{"fd00::7"}, true},
		"both, the Service has IPv6 alone": {"10.0.0.1", []string{"fd00::7"}, true},
		"both, and the Service has both":   {"10.0.0.1", []string{"fd00::7", "10.0.0.1"}, false},
		"both, IPv6 is the pod's first":    {"fd00::7", []string{"fd00::7", "10.0.0.1"}, false},
		"and the Service has IPv4 alone":   {"fd00::7", []string{"10.0.0.1"}, false},
		"IPv4, and nobody knows the name":  {"10.0.0.1", nil, false},
	} {
		r := newRig(t, KindAnna, config.RoleMemory)
		r.Times.Name = 5 * time.Millisecond
		r.Pod.Address = c.pod
		r.zone.Host("anna-memory-0."+host("anna-memory"), c.found...)
		err := r.Run(t.Context())
		if (err != nil) != c.fails {
			t.Errorf("%s: %v", name, err)
		}
		if warned := strings.Contains(r.log.String(), "does not give this pod's address"); warned != (c.found == nil) {
			t.Errorf("%s: a warning %v\n%s", name, warned, r.log)
		}
		if c.fails && (err == nil || !strings.Contains(err.Error(), "IPv6") || !strings.Contains(err.Error(), "ipFamilies")) {
			t.Errorf("%s: the remedy is not told: %v", name, err)
		}
	}
}
