package annanode

import (
	"context"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/test/annanode/zmtp"
)

// What a client can do to Anna.

// try is one without patience: it tells whether there was an answer.
func (k *talker) try(at, key string, patience time.Duration) bool {
	k.t.Helper()
	r := wire.KeyRequest{Kind: wire.Get, Tuples: []wire.Tuple{{Key: key}}, ResponseAddress: address(k.host, talkKeys, 0), ID: k.id()}
	k.send(at, r.Append(nil))
	timeout := time.After(patience)
	for {
		select {
		case response := <-k.keys:
			if response.ID == r.ID {
				return true
			}
		case <-timeout:
			return false
		}
	}
}

// seeded tells whether the seed answers.
func seeded(t *testing.T, w world, patience time.Duration) bool {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := zmtp.Ask(ctx, address(w.routing(), wire.PortSeed, 0), []byte("join"))
	return err == nil
}

// talkVanished asks for answers to an address where nobody listens: with 900 of them
// the thread serves others, with 1300 it does not until somebody listens.
func talkVanished(t *testing.T, w world, k *talker) {
	node := w.add(t, wire.Memory)
	hold(t, k, w.routing(), []step{put("a", wire.TypeLWW, lww(1, "x"))})
	at := address(node.Public, wire.PortRequest, 0)
	const port = 6998
	r := wire.KeyRequest{Kind: wire.Get, Tuples: []wire.Tuple{{Key: "a"}}, ResponseAddress: address(k.host, port, 0), ID: "vanished"}
	ask := func(n int) {
		for range n {
			k.send(at, r.Append(nil))
		}
	}
	ask(900)
	if !k.try(at, "a", patience) {
		t.Fatal("900 answers that nobody reads stop the thread")
	}
	ask(400)
	if k.try(at, "a", time.Second) {
		t.Error("1300 answers that nobody reads do not stop the thread")
	}
	came := make(chan struct{}, 2000)
	l, err := zmtp.Pull(address(k.host, port, 0), func(context.Context, []byte) { came <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for i := range 1300 {
		select {
		case <-came:
		case <-time.After(patience):
			t.Fatalf("%d of 1300 answers came", i)
		}
	}
	if !k.try(at, "a", patience) {
		t.Error("the thread does not recover")
	}
}

// talkEndless: routing looks for a second owner for ever, and answers nobody.
func talkEndless(t *testing.T, w world, k *talker) {
	w.add(t, wire.Memory)
	if !seeded(t, w, patience) {
		t.Fatal("the seed does not answer")
	}
	r := wire.AddressRequest{ResponseAddress: address(k.host, talkLookups, 0), Keys: []string{"a"}, ID: "endless"}
	k.send(address(w.routing(), wire.PortAddress, 0), r.Append(nil))
	select {
	case got := <-k.lookups:
		t.Errorf("an answer: %+v", got)
	case <-time.After(soon):
	}
	if seeded(t, w, soon) {
		t.Error("routing answers its seed's port")
	}
}

// talkNoMemory: without a memory node nobody has metadata, and routing dies.
func talkNoMemory(t *testing.T, w world, k *talker) {
	if err := makeDir(w.root() + "/ebs_0"); err != nil {
		t.Fatal(err)
	}
	w.add(t, wire.Disk)
	r := wire.AddressRequest{ResponseAddress: address(k.host, talkLookups, 0), Keys: []string{"a"}, ID: "dies"}
	k.send(address(w.routing(), wire.PortAddress, 0), r.Append(nil))
	eventually(t, "routing is gone", func() bool { return !seeded(t, w, 200*time.Millisecond) })
}

// talkEmptyKey: the node dies of it.
func talkEmptyKey(t *testing.T, w world, k *talker) {
	node := w.add(t, wire.Memory)
	at := address(node.Public, wire.PortRequest, 0)
	if !k.try(at, "a", patience) {
		t.Fatal("no answer")
	}
	if k.try(at, "", soon) {
		t.Error("an answer to an empty key")
	}
	if k.try(at, "a", soon) {
		t.Error("an answer after an empty key")
	}
}
