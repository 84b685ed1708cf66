package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// Ports of anna-cache, and its sockets in the volume shared with executors.
const (
	cacheUpdate  = 7150
	cacheKeys    = 6800
	cacheLookups = 6850

	cacheReport = 10 * time.Second
	cacheWait   = 10 * time.Second
)

// cacheNode asks Anna for what executors ask it, and keeps nothing.
type cacheNode struct {
	*sockets
	ip, routing string
	rid         int
	log         *slog.Logger
}

func cache(ctx context.Context, log *slog.Logger) error {
	c, err := load(annaConfig, false)
	if err != nil {
		return err
	}
	c.at("threads").at("routing").number()
	user := c.at("user")
	n := &cacheNode{sockets: newSockets(), ip: user.at("ip").text(), log: log}
	if elb := user.at("routing-elb"); elb.node != nil {
		n.routing = elb.text()
	} else if hosts := user.at("routing").texts(); len(hosts) > 0 {
		n.routing = hosts[0]
	} else {
		return aborted{errors.New("no routing node is configured")}
	}
	defer n.close()
	get, put := requests()+"/get", requests()+"/put"
	if err := n.pull(get, put, endpoint("*", cacheUpdate), endpoint("*", cacheKeys), endpoint("*", cacheLookups)); err != nil {
		return err
	}
	report := time.NewTicker(period(cacheReport))
	defer report.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-report.C:
			// The keys that are cached here: none.
			stamp := uint64(time.Now().UnixMilli()) * 10
			n.do(ctx, wire.Put, wire.Tuple{
				Key: "ANNA_METADATA|cache_ip|" + n.ip, Lattice: wire.TypeLWW,
				Payload: wire.AppendLWW(nil, wire.LWW{Timestamp: stamp}),
			})
		case m := <-n.inbox:
			if m.at == get || m.at == put {
				n.forward(ctx, m.body)
			}
		}
	}
}

// forward does what an executor asks for, and answers.
func (n *cacheNode) forward(ctx context.Context, body []byte) {
	r, err := wire.ParseKeyRequest(body)
	if err != nil {
		n.log.Warn("a request that cannot be read", "err", err)
		return
	}
	response := wire.KeyResponse{Kind: r.Kind, ID: r.ID}
	for _, tuple := range r.Tuples {
		response.Tuples = append(response.Tuples, n.do(ctx, r.Kind, tuple))
	}
	n.push(ctx, r.ResponseAddress, response.Append(nil))
}

// do is one tuple's way: the owner, then the value.
func (n *cacheNode) do(ctx context.Context, kind wire.Kind, tuple wire.Tuple) wire.Tuple {
	failed := wire.Tuple{Key: tuple.Key, Error: wire.Timeout}
	n.rid++
	id := n.ip + ":0_" + strconv.Itoa(n.rid)
	lookup := wire.AddressRequest{ResponseAddress: endpoint(n.ip, cacheLookups), Keys: []string{tuple.Key}, ID: id}
	n.push(ctx, endpoint(n.routing, wire.PortAddress), lookup.Append(nil))
	var to string
	if err := n.wait(ctx, endpoint("*", cacheLookups), func(body []byte) bool {
		a, err := wire.ParseAddressResponse(body)
		if err != nil || a.ID != id {
			return false
		}
		if len(a.Addresses) > 0 && len(a.Addresses[0].IPs) > 0 {
			to = a.Addresses[0].IPs[0]
		}
		return true
	}); err != nil || to == "" {
		n.log.Warn("a key without an owner", "key", tuple.Key, "err", err)
		return failed
	}
	r := wire.KeyRequest{Kind: kind, Tuples: []wire.Tuple{tuple}, ResponseAddress: endpoint(n.ip, cacheKeys), ID: id}
	n.push(ctx, to, r.Append(nil))
	answer := failed
	if err := n.wait(ctx, endpoint("*", cacheKeys), func(body []byte) bool {
		a, err := wire.ParseKeyResponse(body)
		if err != nil || a.ID != id || len(a.Tuples) == 0 {
			return false
		}
		answer = a.Tuples[0]
		return true
	}); err != nil {
		n.log.Warn("a request without an answer", "key", tuple.Key, "err", err)
	}
	return answer
}

func (n *cacheNode) wait(ctx context.Context, at string, done func([]byte) bool) error {
	timeout := time.After(cacheWait)
	var later []message
	defer func() {
		for _, m := range later {
			select {
			case n.inbox <- m:
			default: // lost, as it may be
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timeout:
			return fmt.Errorf("nothing came to %s", at)
		case m := <-n.inbox:
			switch {
			case m.at != at:
				later = append(later, m)
			case done(m.body):
				return nil
			}
		}
	}
}

func appendText(b []byte, number protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), text)
}

func appendNumber(b []byte, number protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), n)
}
