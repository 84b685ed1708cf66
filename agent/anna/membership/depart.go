package membership

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// DepartAfter is how long a node is gone until the others are told, where nothing else is
// configured.
const DepartAfter = time.Minute

// Departer tells the cluster of nodes that are gone for good.
type Departer struct {
	Messenger Messenger
	Resolver  Resolver
	// Own is the name of the routing nodes' Service: while that does not resolve, DNS
	// tells nothing of others either.
	Own                 string
	Local               string // where the routing node of this pod is dialled; empty: 127.0.0.1
	Memory, Disk        string // the names of the Services of the tiers; empty where there is none
	Keep                func() Keep
	Routing, Monitoring Hosts
	Listens             func(ctx context.Context, host string, port int) bool // nil: Listens
	After               time.Duration                                         // 0: DepartAfter
	Every               time.Duration                                         // 0: Every
	Clock               func() time.Time                                      // nil: time.Now
	Log                 *slog.Logger

	gone    map[member]time.Time // since when
	places  map[member][]string  // the addresses that their names had last
	held    map[member]bool      // of which it was said that they stay
	said    string
	counted counted
}

// member is a node in its tier.
type member struct {
	tier   wire.Tier
	server wire.Server
}

// Counts are what was done.
func (d *Departer) Counts() Counts { return d.counted.get() }

// Run looks until the context ends.
func (d *Departer) Run(ctx context.Context) { each(ctx, d.Every, d.look) }

func (d *Departer) now() time.Time {
	if d.Clock != nil {
		return d.Clock()
	}
	return time.Now()
}

// look asks the routing node of this pod whom it knows, and DNS for each of them.
func (d *Departer) look(ctx context.Context) {
	d.counted.change(func(c *Counts) { c.Looks++ })
	m, err := d.Messenger.Members(ctx, cmp.Or(d.Local, loopback))
	if err != nil {
		d.trouble("the routing node of this pod does not answer", err)
		return
	}
	addresses, err := d.addresses(ctx)
	if err != nil {
		d.trouble("DNS does not tell who is there", err)
		return
	}
	d.said = ""
	now, gone := d.now(), map[member]time.Time{}
	var alive, dead []member
	d.learn(ctx, m)
	for _, tier := range []wire.Tier{wire.Memory, wire.Disk} {
		for _, server := range m.Of(tier) {
			node := member{tier, server}
			is, doubt := d.isGone(ctx, node, addresses)
			switch {
			case doubt:
			case !is:
				alive = append(alive, node)
			default:
				since, ok := d.gone[node]
				if !ok {
					since = now
				}
				gone[node] = since
				if now.Sub(since) >= d.after() {
					dead = append(dead, node)
				}
			}
		}
	}
	if ctx.Err() != nil {
		return
	}
	d.gone = gone
	d.counted.change(func(c *Counts) {
		c.Gone, c.MemoryNodes, c.Disk = len(gone), len(m.Of(wire.Memory)), len(m.Of(wire.Disk))
	})
	for _, node := range d.spare(m, dead, alive) {
		d.depart(ctx, node, alive)
	}
}

func (d *Departer) after() time.Duration {
	if d.After > 0 {
		return d.After
	}
	return DepartAfter
}

// addresses are those of all data nodes. A tier whose Service has no address any more has
// no node; its name is then as unknown as one that never was.
func (d *Departer) addresses(ctx context.Context) (all []string, err error) {
	own, err := d.Resolver.LookupHost(ctx, absolute(d.Own))
	if err == nil && len(own) == 0 {
		err = errors.New("Service " + d.Own + " has no address")
	}
	if err != nil {
		return nil, err
	}
	for _, service := range []string{d.Memory, d.Disk} {
		if service == "" {
			continue
		}
		found, err := d.Resolver.LookupHost(ctx, absolute(service))
		if err != nil && !notFound(err) {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// learn notes the addresses of the members' names, and keeps those of names that have none
// now: a name goes with its Service, or with a pod that is not ready where the Service shows
// no such pods, and the node may live on.
func (d *Departer) learn(ctx context.Context, m wire.Membership) {
	places := map[member][]string{}
	for _, tier := range []wire.Tier{wire.Memory, wire.Disk} {
		for _, server := range m.Of(tier) {
			node := member{tier, server}
			if net.ParseIP(server.Private) != nil {
				continue
			}
			found, err := d.Resolver.LookupHost(ctx, absolute(server.Private))
			if err != nil || len(found) == 0 {
				found = d.places[node]
			}
			if len(found) > 0 {
				places[node] = found
			}
		}
	}
	d.places = places
}

// taken tells whether an address is another member's now.
func (d *Departer) taken(address string, by member) bool {
	for node, places := range d.places {
		if node != by && slices.Contains(places, address) {
			return true
		}
	}
	return false
}

// isGone tells whether DNS does not know a node any more and nothing answers where it was.
func (d *Departer) isGone(ctx context.Context, node member, addresses []string) (gone, doubt bool) {
	s := node.server
	if net.ParseIP(s.Private) != nil {
		if slices.Contains(addresses, s.Private) {
			return false, false
		}
	} else if _, err := d.Resolver.LookupHost(ctx, absolute(s.Private)); err == nil {
		return false, false
	} else if !notFound(err) {
		return false, true
	}
	listens := d.Listens
	if listens == nil {
		listens = Listens
	}
	for _, place := range d.places[node] {
		if !d.taken(place, node) && listens(ctx, place, wire.PortRequest) {
			return false, true // it lives on without a name, or the address is a stranger's
		}
	}
	return !listens(ctx, s.Private, wire.PortRequest) && (s.Public == s.Private || !listens(ctx, s.Public, wire.PortRequest)), false
}

// spare leaves those out that a tier cannot do without, the one that is gone longest goes
// first.
func (d *Departer) spare(m wire.Membership, dead, alive []member) (going []member) {
	slices.SortStableFunc(dead, func(a, b member) int { return d.gone[a].Compare(d.gone[b]) })
	rings := map[wire.Tier]int{wire.Memory: len(m.Of(wire.Memory)), wire.Disk: len(m.Of(wire.Disk))}
	held, keep := map[member]bool{}, d.Keep()
	for _, node := range dead {
		others := slices.ContainsFunc(alive, func(a member) bool { return a.tier == node.tier })
		if keep.allows(node.tier, rings[node.tier]-1, others) {
			rings[node.tier]--
			going = append(going, node)
			continue
		}
		if held[node] = true; !d.held[node] {
			d.Log.Warn("a node that is gone stays a member: its tier needs as many as it has, or routing hangs or ends. Start another, or lower the replication",
				"tier", node.tier.String(), "private", node.server.Private, "members", rings[node.tier], "replication", keep[node.tier], "replication_known", keep != nil)
		}
	}
	d.held = held
	return going
}

// depart tells everybody. Who is not reached now is told again, as the routing node of
// this pod goes last: as long as it knows the node, this is done again.
func (d *Departer) depart(ctx context.Context, node member, alive []member) {
	message := wire.DepartMessage(node.tier, node.server)
	told, failed := 0, 0
	send := func(host string, port int, text string) {
		if err := d.Messenger.Push(ctx, host, port, text); err != nil {
			failed++
			d.Log.Warn("a node cannot be told that another is gone", "node", host, "gone", node.server.Private, "error", err.Error())
			return
		}
		told++
	}
	for _, other := range alive {
		send(other.server.Private, wire.PortDepart, wire.PeerMessage(message))
	}
	for _, hosts := range []struct {
		Hosts
		port int
	}{{d.Monitoring, wire.PortMonitorNotify}, {d.Routing, wire.PortNotify}} {
		if hosts.Hosts == nil {
			continue
		}
		found, err := hosts.Hosts(ctx)
		if err != nil {
			continue // there may be none; routing nodes look for themselves
		}
		for _, host := range found {
			send(host, hosts.port, message)
		}
	}
	send(cmp.Or(d.Local, loopback), wire.PortNotify, message)
	d.counted.change(func(c *Counts) { c.Departs += int64(told) })
	d.Log.Warn("told the cluster that a node is gone for good", "tier", node.tier.String(), "public", node.server.Public, "private", node.server.Private,
		"since", d.gone[node].UTC().Format(time.RFC3339), "told", told, "not_reached", failed)
}

// trouble is told once for each kind. What was gone before counts from anew: nobody has
// looked meanwhile.
func (d *Departer) trouble(what string, err error) {
	d.gone = nil
	d.counted.change(func(c *Counts) { c.Troubles, c.Gone = c.Troubles+1, 0 })
	if what != d.said {
		d.said = what
		d.Log.Warn("nobody is looked for who is gone: "+what, "error", err.Error())
	}
}
