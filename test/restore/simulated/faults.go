package simulated

import (
	"slices"
	"strings"
	"time"
)

// KillRestore kills a restore container of a namespace with SIGKILL, if one runs. It
// answers its pod and the phase that it was in.
func (n *Node) KillRestore(namespace string) (pod, phase string, killed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.sorted() {
		if p.object.Namespace != namespace {
			continue
		}
		if c, r := p.restoring(); r != nil {
			phase = r.phase
			c.end(time.Now(), 137, "")
			n.Timeline.Add(namespace, "fault: restore container of %s killed while %s", p.object.Name, phase)
			return p.object.Name, phase, true
		}
	}
	return "", "", false
}

// RestartKubelet has the kubelet away for a while. The containers go on; when it is
// back it has forgotten that their pods were ready.
func (n *Node) RestartKubelet() {
	n.mu.Lock()
	defer n.mu.Unlock()
	now, pace := time.Now(), pace{n.random}
	n.stalled = now.Add(pace.between(200*time.Millisecond, 1500*time.Millisecond))
	clear(n.written)
	for _, p := range n.sorted() {
		if !p.ready.IsZero() {
			p.ready = n.stalled.Add(pace.between(50*time.Millisecond, 400*time.Millisecond))
		}
	}
	n.Timeline.Add("", "fault: kubelet restarts, away for %s", n.stalled.Sub(now).Round(time.Millisecond))
}

// Reboot ends all containers of the node: every pod that is there begins anew, with
// its first init container.
func (n *Node) Reboot() {
	n.mu.Lock()
	defer n.mu.Unlock()
	now, pace := time.Now(), pace{n.random}
	n.stalled = now.Add(pace.between(200*time.Millisecond, 800*time.Millisecond))
	clear(n.written)
	n.Timeline.Add("", "fault: the node restarts, away for %s", n.stalled.Sub(now).Round(time.Millisecond))
	for _, p := range n.sorted() {
		p.restart(n.stalled)
	}
}

// sorted are the pods by their names, so that a seed always means the same.
func (n *Node) sorted() []*pod {
	var all []*pod
	for _, p := range n.pods {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *pod) int { return strings.Compare(a.name()+string(a.uid), b.name()+string(b.uid)) })
	return all
}

// Slow has the pods of a namespace be ready only some time after their database has
// started; zero for the usual.
func (n *Node) Slow(namespace string, ready time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.slow[namespace] = ready
}

// Linger keeps the pods of a namespace that are deleted from ending, until it is
// called with false.
func (n *Node) Linger(namespace string, on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.linger[namespace] = on
}

// Forget empties the memory of the volumes of a namespace: a mutation, for tests of
// what has to find it.
func (n *Node) Forget(namespace string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for key, v := range n.volumes {
		if strings.HasPrefix(key, namespace+"/") {
			v.Done = nil
		}
	}
}
