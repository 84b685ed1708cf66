package backup

import (
	"context"
	"strings"
	"testing"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// among is a node among others.
type among struct {
	*anna
	others []string
}

func (a among) Members(context.Context) (wire.Membership, error) {
	servers := []wire.Server{self}
	for _, name := range a.others {
		servers = append(servers, wire.Server{Public: name, Private: name})
	}
	return wire.Membership{Tiers: []wire.TierServers{{Tier: wire.Memory, Servers: servers}}}, nil
}

// A memory node that is started anew is empty, and its next backup complete: who removes the
// ones before by it has lost the keys. It says so.
func TestFewerKeysThanBefore(t *testing.T) {
	for name, c := range map[string]struct {
		before, after int // keys
		others        []string
		threads       int
		full          bool
		want          string
	}{
		"started anew":        {300, 0, []string{"m-1"}, 2, false, "300 keys fewer than in backup b1, 0 of 300"},
		"a part is gone":      {300, 290, []string{"m-1"}, 2, false, "10 keys fewer than in backup b1, 290 of 300"},
		"as many":             {300, 300, []string{"m-1"}, 2, false, ""},
		"more":                {300, 310, []string{"m-1"}, 2, false, ""},
		"another node joined": {300, 150, []string{"m-1", "m-2"}, 2, false, ""},
		"the other is gone":   {300, 150, nil, 2, false, ""},
		"other threads":       {300, 150, []string{"m-1"}, 1, false, ""},
		"nothing to go by":    {300, 150, []string{"m-1"}, 2, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			before := among{newAnna(2), []string{"m-1"}}
			before.fill(c.before)
			r.run("b1", before)
			r.job.Full = c.full
			after := among{newAnna(c.threads), c.others}
			after.fill(c.after)
			notes := strings.Join(r.run("b2", after).Notes, "\n")
			if (notes != "") != (c.want != "") || !strings.Contains(notes, c.want) || c.want != "" && !strings.Contains(notes, "repair") {
				t.Errorf("the manifest notes %q", notes)
			}
		})
	}
}

// Keys that are named as missing are not told of twice.
func TestFewerThanThoseNamed(t *testing.T) {
	r := newRig(t)
	a := among{newAnna(1), []string{"m-1"}}
	a.fill(20)
	r.run("b1", a)
	delete(a.threads[0], "key-000003") // in the list, and not there
	if m := r.run("b2", a); m.Missing.Count != 1 || len(m.Notes) != 0 {
		t.Errorf("%d missing, notes %q", m.Missing.Count, m.Notes)
	}
}
