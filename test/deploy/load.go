package deploy

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/patches"
)

// Load is what became of pods that were created at a steady rate.
type Load struct {
	Created    int
	Uninjected []string // names of pods that came back without Medusa
	Refused    []string // errors of pods that were not created
	Longest    time.Duration
}

// creators is how many clients create at once: a request that takes long must not
// slow the rate.
const creators = 32

// Load creates databases' pods in a namespace at a rate a second, at least least
// of them, until done is closed. They have a scheduling gate and never run.
func (e *Env) Load(ctx context.Context, namespace string, least int, rate float64, done <-chan struct{}) (*Load, error) {
	template, err := pod("filled-in")
	if err != nil {
		return nil, err
	}
	var (
		load Load
		mu   sync.Mutex
		wait sync.WaitGroup
		todo = make(chan string)
	)
	for range creators {
		wait.Go(func() {
			for name := range todo {
				pod := template.DeepCopy()
				pod.Name, pod.Spec.Hostname = name, name
				began := time.Now()
				made, err := e.Client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
				took := time.Since(began)
				mu.Lock()
				load.Longest = max(load.Longest, took)
				switch {
				case err != nil:
					load.Refused = append(load.Refused, fmt.Sprintf("%s: %v", name, err))
				case !injected(made):
					load.Created++
					load.Uninjected = append(load.Uninjected, name)
				default:
					load.Created++
				}
				mu.Unlock()
			}
		})
	}
	tick := time.NewTicker(time.Duration(float64(time.Second) / rate))
	defer tick.Stop()
	finished := false
	for n := 0; n < least || !finished; n++ {
		select {
		case <-ctx.Done():
			close(todo)
			wait.Wait()
			return &load, context.Cause(ctx)
		case <-tick.C:
		}
		select {
		case <-done:
			finished = true
		default:
		}
		todo <- fmt.Sprintf("cassandra-%06d", n)
	}
	close(todo)
	wait.Wait()
	return &load, nil
}

func injected(pod *corev1.Pod) bool {
	for _, c := range pod.Spec.Containers {
		if c.Name == patches.ContainerMedusa {
			return true
		}
	}
	return false
}
