package main

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var leading = prometheus.NewGauge(prometheus.GaugeOpts{
	Name: "stategraft_leader",
	Help: "1 where this process leads and runs the controllers, 0 where it stands by.",
})

// leader tells the metrics who leads. The manager starts it on the leader only.
type leader struct{}

// newLeader registers the metric, which the webhook's process does not have.
func newLeader() leader {
	_ = metrics.Registry.Register(leading) // fails where it is registered already
	return leader{}
}

// Start says so until the context ends.
func (leader) Start(ctx context.Context) error {
	leading.Set(1)
	<-ctx.Done()
	leading.Set(0)
	return nil
}

// NeedLeaderElection is what it is about.
func (leader) NeedLeaderElection() bool { return true }
