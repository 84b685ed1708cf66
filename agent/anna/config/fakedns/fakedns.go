// Package fakedns is a DNS for tests, that says what it is told.
package fakedns

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
)

// Zone is a DNS. The zero value knows nothing. Its methods may be called at once.
type Zone struct {
	mu    sync.Mutex
	srv   map[string][]string
	hosts map[string][]string
	names map[string]string
	fails bool
	asked int
}

// Service makes a headless Service with ports: a name for each pod, and its address.
func (z *Zone) Service(host string, pods map[string]string) {
	var targets, addresses []string
	for pod, address := range pods {
		targets = append(targets, pod+"."+host+".")
		addresses = append(addresses, address)
		z.Host(pod+"."+host, address)
	}
	slices.Sort(targets)
	slices.Sort(addresses)
	z.SRV(host, targets...)
	z.Host(host, addresses...)
}

// SRV sets the targets of a name; none removes it.
func (z *Zone) SRV(name string, targets ...string) { set(z, &z.srv, name, targets) }

// Host sets the addresses of a name; none removes it.
func (z *Zone) Host(name string, addresses ...string) { set(z, &z.hosts, name, addresses) }

func set(z *Zone, in *map[string][]string, name string, values []string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if *in == nil {
		*in = map[string][]string{}
	}
	(*in)[name] = values
}

// Called sets what an address is called.
func (z *Zone) Called(address, name string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.names == nil {
		z.names = map[string]string{}
	}
	z.names[address] = name
}

// Fail makes the DNS fail, which says nothing about any name, or work again.
func (z *Zone) Fail(fails bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.fails = fails
}

// Asked is how many questions there were.
func (z *Zone) Asked() int {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.asked
}

func (z *Zone) find(in map[string][]string, name string) ([]string, error) {
	z.asked++
	if z.fails {
		return nil, &net.DNSError{Err: "server misbehaving", Name: name, IsTemporary: true}
	}
	if found := in[strings.TrimSuffix(name, ".")]; len(found) > 0 {
		return slices.Clone(found), nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

// LookupSRV implements config.Resolver.
func (z *Zone) LookupSRV(_ context.Context, _, _, name string) (string, []*net.SRV, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	targets, err := z.find(z.srv, name)
	var records []*net.SRV
	for _, target := range targets {
		records = append(records, &net.SRV{Target: target})
	}
	return name, records, err
}

// LookupHost implements config.Resolver.
func (z *Zone) LookupHost(_ context.Context, host string) ([]string, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.find(z.hosts, host)
}

// LookupAddr implements config.Resolver.
func (z *Zone) LookupAddr(_ context.Context, address string) ([]string, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if name, ok := z.names[address]; ok {
		return []string{name}, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: address, IsNotFound: true}
}
