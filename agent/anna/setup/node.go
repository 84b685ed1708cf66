package setup

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stategraft/stategraft/agent/anna/config"
	"github.com/stategraft/stategraft/agent/anna/management"
)

// node finds out what the pod's processes have to know.
func (s *Setup) node(ctx context.Context, conf *config.Config) (config.Node, error) {
	o, ns := conf.Options, s.Pod.Namespace
	own, err := s.own(o)
	if err != nil {
		return config.Node{}, err
	}
	n := config.Node{
		Private: own, Public: own,
		RoutingService: o.Host(o.Services.Routing, ns),
		Scheduler:      o.Host(o.Services.Scheduler, ns),
	}
	// What is waited for is waited for at once.
	group, waiting := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		n.Management, err = s.management(waiting, o)
		return err
	})
	if s.Pod.Exposed && s.holdsData() {
		group.Go(func() (err error) {
			n.Public, err = s.public(waiting)
			return err
		})
	}
	if s.needsRouting() {
		group.Go(func() (err error) {
			n.Routing, err = s.names(waiting, "routing nodes", n.RoutingService, true)
			return err
		})
	}
	if s.Pod.Kind == KindAnna && s.Pod.Role != config.RoleMonitoring {
		group.Go(func() (err error) {
			n.Monitoring, err = s.names(waiting, "monitors", o.Host(o.Services.Monitoring, ns), false)
			return err
		})
	}
	if s.Pod.Role == config.RoleExecutor {
		group.Go(func() (err error) {
			n.Schedulers, err = s.names(waiting, "schedulers", n.Scheduler, true)
			return err
		})
	}
	group.Go(func() error { return s.resolves(waiting, own) })
	if err := group.Wait(); err != nil {
		return n, err
	}
	if len(n.Routing) > 0 {
		n.Seed = s.seed(ctx, n.Routing)
	}
	if s.holdsData() && n.Management != "" && s.Listens != nil && !s.Listens(ctx, n.Management, management.PortRestart) {
		s.Log.Warn("nobody answers for the management yet: this node serves nothing before, as Anna waits for it at its start, for ever and without a word. "+
			"Do the pods of that Service run? Where there is to be none, delete the Service and create this pod anew", "service", n.Management, "port", management.PortRestart)
	}
	return n, nil
}

func (s *Setup) holdsData() bool {
	return s.Pod.Kind == KindAnna && (s.Pod.Role == config.RoleMemory || s.Pod.Role == config.RoleDisk)
}

// needsRouting: a data node asks one for the members before it does anything else, and
// without a limit (src/kvs/server.cpp).
func (s *Setup) needsRouting() bool {
	return s.holdsData() || s.Pod.Kind == KindAnna && s.Pod.Role == config.RoleBenchmark
}

// own is what others dial the pod by. A data node's place in the ring is the hash of this
// text: a name stays over restarts, an address does not. On the host's network, where
// clients outside of the cluster dial nodes by their addresses, a name would have to go
// with an address, and routing nodes never learn another address for a name they know.
// Executors and caches are found by the address that the management tells (package
// management).
func (s *Setup) own(o config.Options) (string, error) {
	if s.Pod.Kind == KindAnna && s.Pod.Subdomain != "" && !s.Pod.HostNetwork {
		return s.Pod.Name + "." + o.Host(s.Pod.Subdomain, s.Pod.Namespace), nil
	}
	ip := net.ParseIP(s.Pod.Address)
	if ip == nil {
		return "", fmt.Errorf("the pod's address is %q; POD_IP has to be set from status.podIP", s.Pod.Address)
	}
	if ip.To4() == nil {
		return "", fmt.Errorf("the pod's address is %s: Anna and Cloudburst cannot use IPv6, they cut addresses at each colon; run them where pods have IPv4 addresses", s.Pod.Address)
	}
	return s.Pod.Address, nil
}

// public waits for the address at which clients outside of the cluster reach the pod: the
// controller writes it to the pod once the Service of the pod has one.
func (s *Setup) public(ctx context.Context) (string, error) {
	path := filepath.Join(s.Info, "public-address")
	var said time.Time
	for {
		text, err := os.ReadFile(path)
		address := strings.TrimSpace(string(text))
		switch {
		case err == nil && address != "":
			if strings.ContainsAny(address, ":|_ \t\n/") || len(address) > 253 {
				return "", fmt.Errorf("annotation stategraft.io/public-address is %q; it has to be one IPv4 address or name, without a port: Anna cuts texts at : and _", address)
			}
			return address, nil
		case time.Since(said) >= s.Times.Say:
			s.Log.Info("waiting for the pod's public address: its Service of type LoadBalancer has none yet, or the controller has not told it", "pod", s.Pod.Name)
			said = time.Now()
		}
		if err := s.wait(ctx, s.Times.Ask); err != nil {
			return "", fmt.Errorf("wait for the pod's public address: %w", err)
		}
	}
}

// management is the name of the management's Service. Anna goes without where the DNS
// does not know one: it would wait for ever. Cloudburst is named the Service that it was
// told: without a management it takes itself for a single machine.
func (s *Setup) management(ctx context.Context, o config.Options) (string, error) {
	host := o.Host(o.Services.Management, s.Pod.Namespace)
	if s.Pod.Kind == KindCloudburst {
		return host, nil
	}
	if host == "" {
		s.unmanaged("section "+config.SectionOptions+".services of "+config.File+" names none", host)
		return "", nil
	}
	var said time.Time
	for {
		found, err := config.Addresses(ctx, s.Resolver, host)
		if err == nil && len(found) == 0 {
			s.unmanaged("the DNS knows no such Service", host)
			return "", nil
		}
		if err == nil {
			return host, nil
		}
		said = s.say(said, "the DNS does not answer", err)
		if err := s.wait(ctx, s.Times.Ask); err != nil {
			return "", fmt.Errorf("look for the management: %w", err)
		}
	}
}

// unmanaged says what it is to have no management. A KVS node joins with 0 then (mgmt_ip
// "NULL"), on which its peers begin to send it keys, which Anna never finishes (package
// management, restart).
func (s *Setup) unmanaged(why, host string) {
	if !s.holdsData() {
		s.Log.Info("no management: "+why+", so caches hear of no changes", "service", host)
		return
	}
	s.Log.Warn("no management: "+why+". This node's peers will send it keys, and where it takes over more than 50 of a thread they send the same ones for ever, and can block for good when it goes again. "+
		"Before nodes are added or restarted apply the Deployment hydro-management of deploy/examples/anna, name its Service in "+config.SectionOptions+".services.management where it is called otherwise, and create the data nodes' pods anew, as they look for it at their start",
		"service", host)
}

func (s *Setup) say(said time.Time, message string, err error) time.Time {
	if time.Since(said) < s.Times.Say {
		return said
	}
	s.Log.Info("waiting: "+message, "error", err)
	return time.Now()
}

// names are the pods of a Service. Where one is needed it is waited for without a limit:
// the process cannot start before. A list that is still growing is waited for a little:
// who is missing from it is not told of this node at its start.
func (s *Setup) names(ctx context.Context, what, host string, need bool) ([]string, error) {
	if host == "" {
		if need {
			return nil, fmt.Errorf("there are no %s: section %s.services of %s names no Service of them; name one", what, config.SectionOptions, config.File)
		}
		return nil, nil
	}
	began := time.Now()
	var last []string
	var since, said time.Time
	for {
		found, err := config.Names(ctx, s.Resolver, host)
		switch {
		case errors.Is(err, config.ErrNoPeers) && !need && last == nil:
			return nil, nil
		case err != nil:
			said = s.say(said, fmt.Sprintf("the DNS names no %s behind %s; that has to be a headless Service with publishNotReadyAddresses", what, host), err)
		case !slices.Equal(found, last):
			last, since = found, time.Now()
		}
		if last != nil && (time.Since(since) >= s.Times.Settle || time.Since(began) >= s.Times.Settled && time.Since(since) > 0) {
			return last, nil
		}
		if err := s.wait(ctx, s.Times.Ask); err != nil {
			return nil, fmt.Errorf("wait for %s behind %s: %w", what, host, err)
		}
	}
}

// resolves waits a while for the pod's own name: a node whose name is not known joins, and
// then hangs at the first key (it dials itself by it). One whose name has no IPv4 address
// never gets further: Anna's sockets are IPv4's only (libzmq's default, ZMQ_IPV6 0).
func (s *Setup) resolves(ctx context.Context, own string) error {
	if net.ParseIP(own) != nil {
		return nil
	}
	for began := time.Now(); ; {
		found, err := config.Addresses(ctx, s.Resolver, own)
		six := len(found) > 0 && wide(found[0]) // IPv4 is first
		switch {
		case len(found) > 0 && !six && (slices.Contains(found, s.Pod.Address) || wide(s.Pod.Address)): // of two addresses the pod knows the first
			return nil
		case time.Since(began) < s.Times.Name:
		case six:
			return fmt.Errorf("the DNS gives only IPv6 addresses for this pod's name %s (%s), and Anna cannot use IPv6: "+
				"the pods need IPv4 addresses, and their headless Services spec.ipFamilies: [IPv4], in a cluster that has both", own, strings.Join(found, ", "))
		default:
			s.Log.Warn("the DNS does not give this pod's address for its own name: the Service that spec.serviceName names has to be headless, select the pod, and have publishNotReadyAddresses: true; started even so",
				"name", own, "address", s.Pod.Address, "found", found, "error", err)
			return nil
		}
		if err := s.wait(ctx, s.Times.Ask); err != nil {
			return fmt.Errorf("wait for the pod's own name %s: %w", own, err)
		}
	}
}

// wide tells whether an address is IPv6's.
func wide(address string) bool { return net.ParseIP(address).To4() == nil }
