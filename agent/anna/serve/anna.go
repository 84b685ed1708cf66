package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/stategraft/stategraft/agent/anna/client"
	"github.com/stategraft/stategraft/agent/anna/config"
	"github.com/stategraft/stategraft/agent/anna/membership"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

// lookEvery is how often DNS is asked for routing nodes, and a client is tried for.
const lookEvery = 10 * time.Second

// anna is the node of the pod: how it is asked, what it is called, who its peers are.
type anna struct {
	Config
	resolver  config.Resolver
	messenger membership.Messenger

	mutex   sync.Mutex
	conf    *config.Config
	said    string // of what is wrong with it
	routing []string
	client  *client.Client
	why     error // why there is no client
	known   bool  // of an adopted node: it was found out once what it is called
	doubt   error // why not

	peers   []string // that DNS told of when it was asked last, for replays
	changed time.Time
}

func newAnna(c Config) *anna {
	a := &anna{Config: c, resolver: c.Resolver, messenger: membership.ZeroMQ{}, why: errors.New("the sidecar has just started")}
	if a.Local == "" {
		a.Local = "127.0.0.1"
	}
	if a.resolver == nil {
		a.resolver = net.DefaultResolver
	}
	a.load()
	return a
}

// load reads the user's configuration. What is wrong with it the setup container says; the
// sidecar goes by the usual names then.
func (a *anna) load() {
	conf, err := config.Load(a.Config.Config)
	if conf == nil || err != nil && !errors.Is(err, config.ErrNoFile) {
		conf = &config.Config{Options: config.DefaultOptions()}
	}
	if errors.Is(err, config.ErrNoFile) {
		err = nil // it may be in the image
	}
	if conf.Options.Domain == "" {
		text, _ := os.ReadFile("/etc/resolv.conf")
		conf.Options.Domain = config.DomainOf(text)
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.conf = conf
	text := fmt.Sprint(err)
	if text != a.said && err != nil {
		a.Log.Warn("the configuration cannot be used: the usual names of Services are taken", "error", text)
	}
	a.said = text
}

func (a *anna) config() *config.Config {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.conf
}

// host is the whole name of a Service.
func (a *anna) host(pick func(config.Services) string) string {
	o := a.config().Options
	return o.Host(pick(o.Services), a.Pod.Namespace)
}

// file is what the node was started with, as far as that can be known.
func (a *anna) file() (*config.Effective, error) {
	switch {
	case a.Node != nil:
		return a.Node()
	case a.Conf == "":
		return nil, fs.ErrNotExist
	}
	return config.Read(a.Conf)
}

// threads are those that the node was started with; 0 where no file of the node tells: they
// are counted then, as the ConfigMap may have changed since, and the keys of a thread that is
// left out would be missed by nobody.
func (a *anna) threads() int {
	e, err := a.file()
	if err != nil {
		return 0
	}
	return e.Threads.Of(a.Pod.Role)
}

// effective is what the node was started with; of a node whose file cannot be read, what
// the ConfigMap says.
func (a *anna) effective() config.Effective {
	e, err := a.file()
	if err != nil {
		c := a.config()
		return config.Effective{Threads: c.Threads, Replication: c.Replication}
	}
	return *e
}

// hosts are the pods behind a Service; none where it is not there.
func (a *anna) hosts(pick func(config.Services) string) membership.Hosts {
	return func(ctx context.Context) ([]string, error) {
		host := a.host(pick)
		if host == "" {
			return nil, nil
		}
		return config.Names(ctx, a.resolver, host)
	}
}

// routingHosts are by DNS, or where that does not tell those of the node's own file, or
// else of its container's variables.
func (a *anna) routingHosts(ctx context.Context) ([]string, error) {
	found, err := a.hosts(func(s config.Services) string { return s.Routing })(ctx)
	if err != nil {
		if own := a.effective().Routing; len(own) > 0 {
			return own, nil
		}
		if len(a.Config.Routing) > 0 {
			return a.Config.Routing, nil
		}
	}
	return found, err
}

// run keeps the client and the routing nodes that it asks.
func (a *anna) run(ctx context.Context) {
	defer a.close()
	for {
		a.look(ctx)
		if a.Adopted {
			a.recognise(ctx)
		}
		if !wait(ctx, a.pause()) {
			return
		}
	}
}

func (a *anna) pause() time.Duration {
	if a.every > 0 {
		return a.every
	}
	return lookEvery
}

func (a *anna) look(ctx context.Context) {
	a.load()
	found, err := a.routingHosts(ctx)
	effective := a.effective()
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if len(found) > 0 {
		a.routing = found
	} else if len(a.routing) == 0 {
		if err == nil {
			err = config.ErrNoPeers
		}
		a.trouble(noRouting(err))
		return
	}
	if a.client != nil {
		a.client.SetRouting(a.routing)
		return
	}
	made, err := newClient(ctx, a.Config, a.conf, effective, a.routing)
	if err != nil {
		a.trouble(err)
		return
	}
	a.client, a.why = made, nil
	a.Log.Info("the node can be asked", "routing", a.routing)
}

// noRouting says what is missing and what to do.
func noRouting(err error) error {
	return fmt.Errorf("no routing node is known: %w; name their headless Service in section %s.services.routing of %s, in the ConfigMap that annotation stategraft.io/config-map names", err, config.SectionOptions, config.File)
}

// trouble is told once for each kind. The mutex is held.
func (a *anna) trouble(err error) {
	if a.why == nil || a.why.Error() != err.Error() {
		a.Log.Warn("degraded: no backups: the node cannot be asked yet", "error", err.Error())
	}
	a.why = err
}

// newClient makes a client of Anna, which binds two ports of the pod. Its addresses are
// the same over the pod's life: Anna keeps a socket for each that there ever was.
func newClient(ctx context.Context, c Config, conf *config.Config, e config.Effective, routing []string) (*client.Client, error) {
	if c.Pod.IP == "" {
		return nil, errors.New("the pod's address is not known (POD_IP is empty)")
	}
	port := cmp.Or(c.ResponsePort, conf.Options.ResponsePort)
	return client.New(ctx, client.Options{
		Listen: net.JoinHostPort(c.Address, strconv.Itoa(port)), Advertise: advertised(c.Pod.IP, e.Self.Private),
		Routing: routing, RoutingThreads: max(1, e.Threads.Routing), Log: c.Log,
	})
}

// advertised is what Anna answers to: the pod's address, or in a pod that has two of which the
// first is IPv6's, which Anna cannot take, the name that the node itself is dialled by.
func advertised(address, private string) string {
	if ip := net.ParseIP(address); ip != nil && ip.To4() == nil && private != "" {
		return private
	}
	return address
}

// share has the client ask, together with those of all other nodes, no more at a time than
// a thread of Anna survives: 800 tuples that may be new to it, wherever they come from. A
// replay divides them itself; a backup looks for keys that have moved, on all nodes at once
// after a join. The function that is returned ends it.
func (a *anna) share(ctx context.Context, c *client.Client) (done func()) {
	nodes := 10 // where nobody tells
	if m, err := c.Members(ctx); err == nil {
		nodes = max(1, len(m.Of(wire.Memory))+len(m.Of(wire.Disk)))
	}
	c.SetOutstanding(client.MaxOutstanding / nodes)
	return func() { c.SetOutstanding(client.MaxOutstanding) }
}

func (a *anna) close() {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.client != nil {
		_ = a.client.Close()
		a.client, a.why = nil, errors.New("the sidecar ends")
	}
}

// ready implements engine.
func (a *anna) ready() error {
	if _, err := a.asked(); err != nil {
		return err
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.doubt
}

func (a *anna) asked() (*client.Client, error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.client == nil {
		return nil, fmt.Errorf("the node cannot be asked: %w", a.why)
	}
	return a.client, nil
}

// replicas is how many nodes of the node's tier have each key.
func (a *anna) replicas() int {
	r := a.effective().Replication
	if a.tier() == wire.Disk {
		return r.Disk
	}
	return r.Memory
}

// keep is how many nodes the tiers need; nil where no file tells.
func (a *anna) keep() membership.Keep {
	e := a.effective()
	if e.Replication.Memory == 0 && e.Replication.Disk == 0 {
		return nil
	}
	return membership.Keep{wire.Memory: e.Replication.Memory, wire.Disk: e.Replication.Disk}
}

func (a *anna) announcer() *membership.Announcer {
	return &membership.Announcer{
		Messenger: a.messenger, Local: a.Local, Self: a.self, Tier: a.tier(), Keep: a.keep, Routing: a.routingHosts, Threads: a.threads, Every: a.every, Log: a.Log,
		Answers: func(ctx context.Context) bool { return membership.Listens(ctx, a.Local, wire.PortRequest) },
	}
}

func (a *anna) departer() *membership.Departer {
	return &membership.Departer{
		Messenger: a.messenger, Local: a.Local, Resolver: a.resolver, Keep: a.keep, After: a.config().Options.DepartAfter, Every: a.every, Log: a.Log,
		Own:        a.host(func(s config.Services) string { return s.Routing }),
		Memory:     a.host(func(s config.Services) string { return s.Memory }),
		Disk:       a.host(func(s config.Services) string { return s.Disk }),
		Routing:    a.hosts(func(s config.Services) string { return s.Routing }),
		Monitoring: a.hosts(func(s config.Services) string { return s.Monitoring }),
	}
}
