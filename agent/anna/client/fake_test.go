package client

import (
	"context"
	"fmt"
	"io"
	"log"
	"sync"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// fake is one process of Anna on ports of its own: a KVS thread and a routing thread,
// with go-zeromq's sockets, so that another implementation checks ours. What it answers
// is for the test to say.
type fake struct {
	t       *testing.T
	ctx     context.Context
	kvs     string // tcp://host:port
	routing ports

	mu       sync.Mutex
	values   map[string]wire.Tuple
	requests []wire.KeyRequest
	lookups  []wire.AddressRequest
	pushers  map[string]zmq4.Socket
	// answer turns a request into responses; nil answers as Anna does.
	answer  func(wire.KeyRequest) []wire.KeyResponse
	owners  func(wire.AddressRequest) []wire.AddressResponse
	members wire.Membership
	// outstanding is the most tuples that were in the fake at a time.
	now, most int
	hold      chan struct{} // where set, an answer waits for it to be closed
}

func newFake(t *testing.T) *fake {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	f := &fake{t: t, ctx: ctx, values: map[string]wire.Tuple{}, pushers: map[string]zmq4.Socket{}}
	kvs := f.pull()
	f.kvs = "tcp://" + kvs.Addr().String()
	addresses := f.pull()
	seed := zmq4.NewRep(ctx, quiet())
	f.must(seed.Listen("tcp://127.0.0.1:0"))
	f.routing = ports{port(seed), port(addresses)}
	go f.serveKeys(kvs)
	go f.serveLookups(addresses)
	go f.serveSeed(seed)
	t.Cleanup(func() {
		for _, s := range []zmq4.Socket{kvs, addresses, seed} {
			s.Close()
		}
	})
	return f
}

func quiet() zmq4.Option { return zmq4.WithLogger(log.New(io.Discard, "", 0)) }

func (f *fake) must(err error) {
	if err != nil {
		f.t.Helper()
		f.t.Fatal(err)
	}
}

func (f *fake) pull() zmq4.Socket {
	s := zmq4.NewPull(f.ctx, quiet())
	f.must(s.Listen("tcp://127.0.0.1:0"))
	return s
}

func port(s zmq4.Socket) int {
	_, port, _ := wire.ParseAddress("tcp://" + s.Addr().String())
	return port
}

func (f *fake) push(address string, message []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.pushers[address]
	if s == nil {
		s = zmq4.NewPush(f.ctx, quiet(), zmq4.WithDialerMaxRetries(1))
		if s.Dial(address) != nil {
			return
		}
		f.pushers[address] = s
	}
	s.Send(zmq4.NewMsg(message))
}

func (f *fake) serveKeys(s zmq4.Socket) {
	for {
		message, err := s.Recv()
		if f.ctx.Err() != nil {
			return
		}
		if err != nil {
			continue // a client that has gone
		}
		request, err := wire.ParseKeyRequest(message.Frames[0])
		if err != nil {
			f.t.Error(err)
			continue
		}
		f.mu.Lock()
		f.requests = append(f.requests, request)
		f.now += len(request.Tuples)
		f.most = max(f.most, f.now)
		answer, hold := f.answer, f.hold
		f.mu.Unlock()
		respond := func() {
			if hold != nil {
				<-hold
			}
			if answer == nil {
				answer = f.asAnna
			}
			responses := answer(request)
			f.mu.Lock()
			f.now -= len(request.Tuples)
			f.mu.Unlock()
			for _, response := range responses {
				f.push(request.ResponseAddress, response.Append(nil))
			}
		}
		if hold != nil {
			go respond()
		} else {
			respond()
		}
	}
}

// asAnna answers all in one response.
func (f *fake) asAnna(request wire.KeyRequest) []wire.KeyResponse {
	f.mu.Lock()
	defer f.mu.Unlock()
	response := wire.KeyResponse{Kind: request.Kind, ID: request.ID}
	for _, t := range request.Tuples {
		have, there := f.values[t.Key]
		answer := wire.Tuple{Key: t.Key}
		switch {
		case request.Kind == wire.Get && there:
			answer = have
		case request.Kind == wire.Get:
			answer.Error = wire.KeyDNE
		case there && have.Lattice != t.Lattice || t.Lattice == wire.None:
		default:
			f.values[t.Key] = t
			answer.Lattice = t.Lattice
		}
		response.Tuples = append(response.Tuples, answer)
	}
	return []wire.KeyResponse{response}
}

func (f *fake) serveLookups(s zmq4.Socket) {
	for {
		message, err := s.Recv()
		if f.ctx.Err() != nil {
			return
		}
		if err != nil {
			continue
		}
		request, err := wire.ParseAddressRequest(message.Frames[0])
		if err != nil {
			f.t.Error(err)
			continue
		}
		f.mu.Lock()
		f.lookups = append(f.lookups, request)
		owners := f.owners
		f.mu.Unlock()
		responses := []wire.AddressResponse{{ID: request.ID, Addresses: []wire.Addresses{{Key: request.Keys[0], IPs: []string{f.kvs}}}}}
		if owners != nil {
			responses = owners(request)
		}
		for _, response := range responses {
			f.push(request.ResponseAddress, response.Append(nil))
		}
	}
}

func (f *fake) serveSeed(s zmq4.Socket) {
	for {
		_, err := s.Recv()
		if f.ctx.Err() != nil {
			return
		}
		if err != nil {
			continue
		}
		f.mu.Lock()
		members := f.members
		f.mu.Unlock()
		s.Send(zmq4.NewMsg(members.Append(nil)))
	}
}

func (f *fake) set(key string, value string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.values[key] = wire.Tuple{Key: key, Lattice: wire.TypeLWW, Payload: wire.AppendLWW(nil, wire.LWW{Timestamp: 1, Value: []byte(value)})}
}

// client is one of the fake. Tests of what is not answered make it hurry.
func (f *fake) client(change func(*Options)) *Client {
	o := Options{
		Listen: "127.0.0.1:0", Advertise: "127.0.0.1", Routing: []string{"127.0.0.1"},
		ports: f.routing, hurry: time.Minute,
		limits: limits{20 * time.Millisecond, 200 * time.Millisecond, time.Minute},
	}
	if change != nil {
		change(&o)
	}
	c, err := New(context.Background(), o)
	f.must(err)
	f.t.Cleanup(func() { c.Close() })
	return c
}

func keysOf(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("key-%04d", i)
	}
	return keys
}
