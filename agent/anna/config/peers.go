package config

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
)

// Resolver is what of *net.Resolver finds peers.
type Resolver interface {
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
	LookupHost(ctx context.Context, host string) ([]string, error)
	LookupAddr(ctx context.Context, addr string) ([]string, error)
}

// ErrNoPeers says that the DNS knows no such name: there is no such Service, or no pod
// behind it has an address yet. Any other error says nothing about who is there.
var ErrNoPeers = errors.New("no such name in the DNS")

// Peer is a pod behind a headless Service.
type Peer struct {
	Name string // stays over restarts where the pod is a StatefulSet's
	Addr string // IPv4 where it has one; empty where the name has none now
}

// Names are the names of the pods behind a headless Service, by their ordinals; host is
// what Options.Host gives. Where the DNS has no SRV records (a Service without ports)
// they are what the addresses are called, and else the addresses.
func Names(ctx context.Context, r Resolver, host string) ([]string, error) {
	_, records, err := r.LookupSRV(ctx, "", "", host+".")
	if err != nil && len(records) == 0 && !IsNotFound(err) {
		return nil, fmt.Errorf("look for the pods of %s: %w", host, err)
	}
	var names []string
	for _, record := range records {
		names = append(names, clean(record.Target))
	}
	if len(names) == 0 {
		if names, err = named(ctx, r, host); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(names, byOrdinal)
	return slices.Compact(names), nil
}

// named asks for the addresses of a Service and what they are called.
func named(ctx context.Context, r Resolver, host string) ([]string, error) {
	addresses, err := r.LookupHost(ctx, host+".")
	if IsNotFound(err) || err == nil && len(addresses) == 0 {
		return nil, fmt.Errorf("look for the pods of %s: %w", host, ErrNoPeers)
	}
	if err != nil {
		return nil, fmt.Errorf("look for the pods of %s: %w", host, err)
	}
	var names []string
	for _, address := range addresses {
		name := address
		called, _ := r.LookupAddr(ctx, address) // without one the address does
		for _, c := range called {
			if c = clean(c); strings.HasSuffix(c, "."+host) {
				name = c
				break
			}
		}
		names = append(names, name)
	}
	return names, nil
}

// Peers are the pods behind a headless Service with their addresses.
func Peers(ctx context.Context, r Resolver, host string) ([]Peer, error) {
	names, err := Names(ctx, r, host)
	if err != nil {
		return nil, err
	}
	peers := make([]Peer, len(names))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i, name := range names {
		group.Go(func() error {
			address, err := Address(ctx, r, name)
			peers[i] = Peer{name, address}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return peers, nil
}

// Address is the first address of a name, IPv4 before IPv6: empty where it has none.
func Address(ctx context.Context, r Resolver, name string) (string, error) {
	all, err := Addresses(ctx, r, name)
	if len(all) == 0 {
		return "", err
	}
	return all[0], nil
}

// Addresses are all of a name, IPv4 first: none, and no error, where the DNS does not
// know the name.
func Addresses(ctx context.Context, r Resolver, name string) ([]string, error) {
	if net.ParseIP(name) != nil {
		return []string{name}, nil
	}
	found, err := r.LookupHost(ctx, strings.TrimSuffix(name, ".")+".")
	if IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for the address of %s: %w", name, err)
	}
	slices.SortFunc(found, func(a, b string) int {
		if wide := strings.Contains(a, ":"); wide != strings.Contains(b, ":") {
			if wide {
				return 1
			}
			return -1
		}
		return strings.Compare(a, b)
	})
	return slices.Compact(found), nil
}

// IsNotFound tells the DNS's no from no answer.
func IsNotFound(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) && dns.IsNotFound
}

func clean(name string) string {
	return strings.ToLower(strings.TrimSuffix(name, "."))
}

// byOrdinal sorts a-2.x before a-10.x.
func byOrdinal(a, b string) int {
	first, rest, _ := strings.Cut(a, ".")
	other, rest2, _ := strings.Cut(b, ".")
	base, n := ordinal(first)
	base2, n2 := ordinal(other)
	if base != base2 || rest != rest2 || n == n2 {
		return strings.Compare(a, b)
	}
	return n - n2
}

func ordinal(name string) (string, int) {
	at := strings.LastIndexByte(name, '-')
	n, err := strconv.Atoi(name[at+1:])
	if at < 0 || err != nil {
		return name, -1
	}
	return name[:at], n
}
