package backup

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/sidecar"
)

// time30 is how much later than its timeout a Backup may be over: a controller that
// ended takes a moment to come back.
const time30 = 30 * time.Second

// What follows is what the sidecars tell and do.

// reach is the node that a pod is asked of.
func (s *sim) reach(pod *corev1.Pod) (*simNode, error) {
	n := s.node(pod.Name)
	if now := s.simPod(n); n.uid != pod.UID || s.now.Before(n.silent) || !up(pod) || !up(now) || pod.Status.PodIP != now.Status.PodIP {
		return nil, fmt.Errorf("%w: pod %s", sidecar.ErrUnreachable, pod.Name)
	}
	s.settle(n)
	return n, nil
}

// settle lets a Medusa's work go as far as the time is.
func (s *sim) settle(n *simNode) {
	if n.job == nil {
		return
	}
	if n.part == nil && !s.now.Before(n.job.begins) {
		n.part = &simPart{}
	}
	if s.now.Before(n.job.ends) {
		return
	}
	n.job = nil
	switch {
	case s.chance(s.breaks) && s.rand.IntN(2) == 0:
		n.part = nil // it gave up before it began
		s.logf("%s gives up before it begins", n.name)
	case s.chance(s.breaks) || s.now.Before(s.down):
		n.part.failed = true
		s.logf("%s fails", n.name)
	default:
		n.part = &simPart{done: true, objects: 10}
		if n.empty > 0 {
			n.empty--
			n.part.objects = 0
		}
		s.logf("%s is done: %+v", n.name, *n.part)
	}
}

func (s *sim) Report(_ context.Context, pod *corev1.Pod) (node.Report, error) {
	n, err := s.reach(pod)
	if err != nil {
		return node.Report{}, err
	}
	report := node.Report{Node: n.name, Prefix: "p", BackupRunning: n.job != nil}
	if n.job != nil && s.rand.IntN(2) == 0 {
		report.Backup = &node.Running{Name: s.storageName()}
	}
	return report, nil
}

func (s *sim) storageName() string {
	if s.object == nil {
		return ""
	}
	return s.object.StorageName()
}

func (s *sim) Status(_ context.Context, pod *corev1.Pod, _ string) (sidecar.Phase, error) {
	n, err := s.reach(pod)
	switch {
	case err != nil:
		return "", err
	case s.now.Before(s.down):
		return "", fmt.Errorf("the storage is down")
	case n.part == nil:
		return "", sidecar.ErrForgotten
	case n.job != nil:
		return sidecar.Running, nil
	case n.part.done:
		return sidecar.Succeeded, nil
	}
	return sidecar.Failed, nil
}

func (s *sim) Begin(_ context.Context, pod *corev1.Pod, name string, _ bool) error {
	return s.effect("begin "+pod.Name, func() error {
		n, err := s.reach(pod)
		if err != nil {
			return &notAsked{err}
		}
		s.judgeBegin(n, name)
		if n.job != nil {
			return sidecar.ErrBusy
		}
		if n.part != nil {
			return sidecar.ErrExists
		}
		n.asked++
		s.begun++
		begins := s.now.Add(time.Duration(s.rand.IntN(30)) * time.Second)
		n.job = &simJob{begins: begins, ends: begins.Add(time.Duration(s.rand.IntN(240)) * time.Second)}
		return nil
	})
}

// judgeBegin holds against the controller what it must not ask for.
func (s *sim) judgeBegin(n *simNode, name string) {
	if s.object == nil {
		s.wrong("%s is asked without an object", n.name)
		return
	}
	at := s.object.Status.Pod(n.name)
	switch {
	case at == nil || at.Phase != api.PodBackupRunning || at.Tries == 0 || at.UID != n.uid:
		s.wrong("%s is asked, and that is not written down: %+v", n.name, at)
	case !held(s.object) || !accepted(&s.object.Status) || s.object.Status.Name != name || s.object.Status.Prefix != "p":
		s.wrong("%s is asked without a finalizer or acceptance", n.name)
	case s.object.Status.Phase.Final():
		s.wrong("%s is asked after the end", n.name)
	case at.Tries > s.object.Spec.RetriesOrDefault()+1:
		s.wrong("%s is asked for try %d", n.name, at.Tries)
	case n.job != nil:
		s.wrong("%s is asked while it is at it", n.name)
	case s.turn != "b":
		s.wrong("%s is asked in the turn of %q", n.name, s.turn)
	}
	running := 0
	for i := range s.object.Status.Pods {
		if s.object.Status.Pods[i].Phase == api.PodBackupRunning {
			running++
		}
	}
	if limit := int(s.object.Spec.Parallel); limit > 0 && running > limit {
		s.wrong("%d pods run at once", running)
	}
}

func (s *sim) Discard(_ context.Context, pod *corev1.Pod, _, _ string) error {
	return s.effect("discard "+pod.Name, func() error {
		n, err := s.reach(pod)
		switch {
		case err != nil:
			return err
		case n.job != nil:
			s.wrong("%s is to discard what it makes", n.name)
			return sidecar.ErrNotDiscarded
		case n.part != nil && n.part.done && n.part.objects > 0:
			s.wrong("%s is to discard what is complete", n.name)
			return sidecar.ErrNotDiscarded
		}
		n.part = nil
		return nil
	})
}

func (s *sim) Backup(_ context.Context, pod *corev1.Pod, _, name string) (b node.Backup, err error) {
	if _, err := s.reach(pod); err != nil {
		return b, err
	}
	if !s.now.Before(s.deaf) && s.chance(s.breaks) { // it was there a moment ago
		s.deaf = s.now.Add(time.Duration(s.rand.IntN(90)) * time.Second)
	}
	if s.rolls > 0 && s.chance(0.5) {
		s.rolls, s.checked = s.rolls-1, s.checked+1
		s.deaf = s.now.Add(time.Duration(s.rand.IntN(90)) * time.Second)
		s.roll()
	}
	if s.now.Before(s.down) || s.now.Before(s.deaf) {
		return b, fmt.Errorf("the storage is down")
	}
	b.Name, b.Ring = name, map[string]node.Ring{}
	for _, n := range s.nodes {
		b.Ring[n.name] = node.Ring{Tokens: []string{"1"}, Datacenter: "dc1", Rack: "r1"}
		if n.part != nil {
			b.Members = append(b.Members, node.Member{Node: n.name, Complete: n.part.done, Objects: n.part.objects, Bytes: 100, Started: s.now, Finished: s.now, Type: "differential", Version: "4.1.10"})
		}
	}
	return b, nil
}

// happens is one thing that happens without the controller.
func (s *sim) happens() {
	n := s.nodes[s.rand.IntN(len(s.nodes))]
	switch s.rand.IntN(8) {
	case 0, 1, 2: // the informer catches up
		s.lagging = s.object.DeepCopy()
		n.hidden, n.heard = false, s.glimpsed(n)
	case 3:
		if n.uid == "" && s.comes && s.rand.IntN(4) == 0 {
			n.hidden = s.rand.IntN(2) == 0
			s.create(n)
		}
	}
}

// byHand is what people and machines do to it.
func (s *sim) byHand() {
	n := s.nodes[s.rand.IntN(len(s.nodes))]
	switch s.rand.IntN(9) {
	case 0:
		s.logf("%s is deleted", n.name)
		s.kill(n)
		n.uid = ""
	case 7:
		s.down = s.now.Add(time.Duration(s.rand.IntN(120)) * time.Second)
		s.roll()
	case 1, 8:
		s.logf("%s: its Medusa is started anew", n.name)
		s.kill(n)
		if s.rand.IntN(2) == 0 {
			n.up, n.runs = s.now.Add(time.Duration(s.rand.IntN(60))*time.Second), n.runs+1
		}
	case 2:
		n.silent = s.now.Add(time.Duration(s.rand.IntN(60)) * time.Second)
	case 3:
		s.down = s.now.Add(time.Duration(s.rand.IntN(60)) * time.Second)
	case 4:
		if s.object != nil {
			s.object.ResourceVersion = s.bump()
		}
	case 5:
		if s.object != nil && !s.object.Spec.Cancel {
			s.object.Spec.Suspend = !s.object.Spec.Suspend
			s.object.Generation++
			s.object.ResourceVersion = s.bump()
		}
	case 6:
		n.empty = 1
	}
}

// roll has pods created anew, as when nodes are drained.
func (s *sim) roll() {
	all := s.rand.IntN(2) == 0
	for _, n := range s.nodes {
		if n.uid != "" && (all || s.rand.IntN(2) == 0) {
			s.kill(n)
			s.create(n)
		}
	}
}

// create makes a pod anew, whose containers run some time later.
func (s *sim) create(n *simNode) {
	n.uid, n.runs, n.up = s.uid(), n.runs+1, s.now.Add(time.Duration(s.rand.IntN(90))*time.Second)
	s.logf("%s is created as %s, and runs at %s", n.name, n.uid, n.up.Format("15:04:05"))
}

// kill ends a Medusa: what it was at stays as it is.
func (s *sim) kill(n *simNode) {
	s.settle(n)
	if n.job != nil && n.part != nil {
		n.part.failed = true
	}
	n.job = nil
}

func (s *sim) delete(policy api.DeletionPolicy) {
	if s.object == nil || s.object.DeletionTimestamp != nil {
		return
	}
	s.logf("by hand: delete, %s", policy)
	s.object.Spec.DeletionPolicy = policy
	s.object.Generation++
	s.object.ResourceVersion = s.bump()
	s.object.DeletionTimestamp = new(metav1.NewTime(s.now))
	if !held(s.object) {
		s.object = nil
	}
}
