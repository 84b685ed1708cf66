package simulated

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stategraft/stategraft/api/node"
	"github.com/stategraft/stategraft/workload"
)

// pod is a pod that is bound to the node. Its containers run one after the other,
// and then together, as in any pod.
type pod struct {
	object  *corev1.Pod // as it was last read
	uid     types.UID
	volume  *Volume
	backups *Catalogue
	pace    pace
	address string
	service *service                     // its node API; nil where it has none
	begins  func() (later time.Duration) // is told that the database starts

	inits, mains []*container
	began        time.Time
	gone         time.Time // when its containers have ended; zero while it is not deleted
	ready        time.Time // when the database is; zero while it does not run
	saidReady    bool
}

func (p *pod) name() string { return p.object.Namespace + "/" + p.object.Name }

// read takes the containers of the object.
func (p *pod) read(now time.Time) {
	p.began = now.Add(p.pace.between(10*time.Millisecond, 60*time.Millisecond))
	for i := range p.object.Spec.InitContainers {
		p.inits = append(p.inits, &container{spec: &p.object.Spec.InitContainers[i], init: true, due: p.began})
	}
	for i := range p.object.Spec.Containers {
		p.mains = append(p.mains, &container{spec: &p.object.Spec.Containers[i], due: p.began})
	}
}

// advance goes on as far as the time has come.
func (p *pod) advance(now time.Time) {
	if p.object.DeletionTimestamp != nil && p.gone.IsZero() {
		p.gone = now.Add(p.pace.between(30*time.Millisecond, 900*time.Millisecond))
		p.ready = time.Time{}
		// The agent ends a run of Medusa at SIGTERM; what it has half done stays.
		for _, c := range p.inits {
			if c.restores() && c.state == running {
				c.end(now, 1, "interrupted: the next start begins anew")
			}
		}
	}
	if !p.gone.IsZero() || now.Before(p.began) {
		return
	}
	for _, c := range p.inits {
		if p.step(c, now); !c.done() {
			return
		}
	}
	for _, c := range p.mains {
		if c.state == running || c.state == ended && now.Before(c.due) {
			continue
		}
		c.start(now)
		if !workload.Own(c.spec.Name) && p.ready.IsZero() {
			p.volume.Starts++
			p.ready = now.Add(p.begins() + p.pace.between(50*time.Millisecond, 400*time.Millisecond))
		}
	}
}

// step goes on with an init container.
func (p *pod) step(c *container, now time.Time) {
	switch {
	case c.state == waiting && !now.Before(c.due), c.state == ended && c.exit != 0 && !now.Before(c.due):
		c.start(now)
		switch {
		case c.restores():
			c.run = &run{order: OrderOf(c.spec, p.object.Name), volume: p.volume, backups: p.backups, pace: p.pace}
			c.run.begin(now)
		case !c.sidecar():
			c.due = now.Add(p.pace.between(5*time.Millisecond, 50*time.Millisecond))
		}
	case c.state != running:
	case c.run != nil:
		ended, err := c.run.advance(now)
		switch {
		case err != nil:
			c.end(now, 1, err.Error())
		case ended:
			c.end(now, 0, c.run.message)
		}
	case !c.due.IsZero() && !now.Before(c.due):
		c.end(now, 0, "")
	}
}

// restart ends all containers, and begins with the first one anew, as after a
// restart of the node.
func (p *pod) restart(now time.Time) {
	p.began, p.ready = now.Add(p.pace.between(50*time.Millisecond, 300*time.Millisecond)), time.Time{}
	for _, c := range append(append([]*container{}, p.inits...), p.mains...) {
		if c.state != waiting {
			c.again(p.began)
		}
	}
}

// restoring is the run of the restore container; nil where there is none.
func (p *pod) restoring() (*container, *run) {
	for _, c := range p.inits {
		if c.run != nil {
			return c, c.run
		}
	}
	return nil, nil
}

func (p *pod) isReady(now time.Time) bool {
	return p.gone.IsZero() && !p.ready.IsZero() && !now.Before(p.ready)
}

// runs tells whether the database runs, though it be on its way down.
func (p *pod) runs() bool {
	for _, c := range p.mains {
		if c.state == running && !workload.Own(c.spec.Name) {
			return true
		}
	}
	return false
}

// serves tells whether a container runs that answers the node API.
func (p *pod) serves() bool {
	for _, c := range append(append([]*container{}, p.inits...), p.mains...) {
		if c.state == running && portOf(c.spec) != 0 {
			return true
		}
	}
	return false
}

// portOf is the port of the node API of a container; 0 for none.
func portOf(c *corev1.Container) int32 {
	for _, port := range c.Ports {
		if port.Name == node.PortName {
			return port.ContainerPort
		}
	}
	return 0
}

// claimOf is the claim of the pod's data.
func claimOf(p *corev1.Pod) (string, error) {
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			return v.PersistentVolumeClaim.ClaimName, nil
		}
	}
	return "", fmt.Errorf("pod %s/%s has no claim", p.Namespace, p.Name)
}
