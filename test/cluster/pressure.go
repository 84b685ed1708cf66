package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// softPressure is a threshold that every machine is below, at which a kubelet says that
// its node is short of memory, and evicts nobody for a day
// (k8s.io/kubernetes/pkg/kubelet/eviction: conditions follow the thresholds at once).
const softPressure = "evictionSoft: {memory.available: 100Ti}\nevictionSoftGracePeriod: {memory.available: 24h}\nevictionPressureTransitionPeriod: 1s\n"

// MemoryPressure has the node's kubelet say that memory is short, or no more, and waits
// until it does. It is started again for that; containers run on.
func (cp *ControlPlane) MemoryPressure(ctx context.Context, short bool) error {
	path := cp.state.node("kubelet.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the kubelet's configuration: %w", err)
	}
	changed := strings.ReplaceAll(string(text), softPressure, "")
	if short {
		changed += softPressure
	}
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		return fmt.Errorf("writing the kubelet's configuration: %w", err)
	}
	if err := cp.Restart(ctx, Kubelet); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cp.config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	want := corev1.ConditionFalse
	if short {
		want = corev1.ConditionTrue
	}
	for {
		node, err := client.CoreV1().Nodes().Get(ctx, NodeName, metav1.GetOptions{})
		if err == nil {
			for _, c := range node.Status.Conditions {
				if c.Type == corev1.NodeMemoryPressure && c.Status == want {
					return nil
				}
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the node's MemoryPressure to be %s: %w", want, errors.Join(context.Cause(ctx), err))
		case <-time.After(200 * time.Millisecond):
		}
	}
}
