package serve

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stategraft/stategraft/agent/anna/config"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

// Anna answers to IPv4 addresses and names. A pod whose first address is IPv6's has a name
// that Anna dials it by, and backups come by that.
func TestAdvertised(t *testing.T) {
	const name = "anna-memory-0.anna-memory.hydro.svc.cluster.local"
	for what, c := range map[string]struct{ address, private, want string }{
		"IPv4":                       {"10.0.0.1", name, "10.0.0.1"},
		"IPv4, without a name":       {"10.0.0.1", "10.0.0.1", "10.0.0.1"},
		"IPv6 first":                 {"fd00::7", name, name},
		"IPv6, and nothing is known": {"fd00::7", "", "fd00::7"},
		"IPv6, on the host's":        {"fd00::7", "10.0.0.1", "10.0.0.1"},
	} {
		if got := advertised(c.address, c.private); got != c.want {
			t.Errorf("%s: %s", what, got)
		}
	}
	c := Config{Address: "127.0.0.1", ResponsePort: 0, Pod: Pod{IP: "fd00::7"}, Log: slog.New(slog.DiscardHandler)}
	conf := &config.Config{}
	made, err := newClient(t.Context(), c, conf, config.Effective{Self: wire.Server{Private: name, Public: name}}, []string{"r-0"})
	if err != nil {
		t.Fatalf("a pod with both: %v", err)
	}
	made.Close()
	if _, err := newClient(t.Context(), c, conf, config.Effective{}, []string{"r-0"}); err == nil || !strings.Contains(err.Error(), "IPv6") {
		t.Errorf("a pod of which nothing else is known: %v", err)
	}
}
