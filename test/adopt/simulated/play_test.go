package simulated

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/patches"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// say is a status in a word.
func say(s corev1.ContainerStatus) string {
	switch {
	case s.State.Running != nil:
		return "running"
	case s.State.Terminated != nil:
		return s.State.Terminated.Reason
	case s.State.Waiting != nil:
		return s.State.Waiting.Reason
	}
	return "nothing"
}

func TestPlay(t *testing.T) {
	for _, test := range []struct {
		name  string
		play  Play
		after []string // each second
	}{
		{"at once, for ever", Play{}, []string{"running", "running", "running"}},
		{"later", Play{After: 2 * time.Second}, []string{"ContainerCreating", "ContainerCreating", "running"}},
		{"never", Play{Waits: "ErrImagePull"}, []string{"ErrImagePull", "ErrImagePull", "ErrImagePull"}},
		{"killed", Killed(2 * time.Second), []string{"running", "running", "Error"}},
		{"out of memory", OutOfMemory(time.Second), []string{"running", "OOMKilled", "OOMKilled"}},
		{"done", Play{After: time.Second, Runs: time.Second}, []string{"ContainerCreating", "running", "Completed"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := &container{seen: began}
			for i, want := range test.after {
				c.advance(began.Add(time.Duration(i)*time.Second), test.play)
				if got := say(c.status("c", "image", nil)); got != want {
					t.Errorf("after %d s it says %s, want %s", i, got, want)
				}
			}
		})
	}
}

// What has ended is never started again, whatever the script says then.
func TestEndedForEver(t *testing.T) {
	c := &container{seen: began}
	c.advance(began, Killed(time.Second))
	c.advance(began.Add(time.Second), Killed(time.Second))
	c.advance(began.Add(time.Hour), Play{})
	s := c.status("c", "image", nil)
	if s.State.Terminated == nil || s.State.Terminated.ExitCode != 137 || !s.State.Terminated.FinishedAt.Time.Equal(began.Add(time.Second)) {
		t.Errorf("it says %+v", s.State)
	}
}

// An image that appears lets the container start.
func TestAppears(t *testing.T) {
	c := &container{seen: began}
	c.advance(began, Play{Waits: "ImagePullBackOff"})
	c.advance(began.Add(time.Minute), Play{})
	if !c.runs() {
		t.Error("it does not run")
	}
}

func TestFaster(t *testing.T) {
	c := Faster(began, 60)
	if got := c.at(began.Add(time.Second)); !got.Time.Equal(began.Add(time.Minute)) {
		t.Errorf("a second later it is %s", got)
	}
}

// grafted is a container of an adopted pod.
func grafted(role patches.Role, number string, more ...corev1.EnvVar) corev1.EphemeralContainer {
	return corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: role.Container() + "-" + number, Image: "image",
		Env: append(more, corev1.EnvVar{Name: patches.EnvAdopted, Value: number})}}
}

// The agent ends once what it brings was taken by all, not before, and what runs goes on.
func TestAgentEnds(t *testing.T) {
	p := &pod{from: began, ready: true, grafted: map[string]*container{}, object: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "cassandra"}},
			EphemeralContainers: []corev1.EphemeralContainer{
				grafted(patches.RoleAgent, "1", corev1.EnvVar{Name: patches.EnvAdoptedTakers, Value: "snapshot-2 medusa-3"}),
				grafted(patches.RoleSnapshot, "2"), grafted(patches.RoleMedusa, "3"),
			}}}}
	script := func(_ *corev1.Pod, c *corev1.EphemeralContainer) Play {
		if c.Name == "stategraft-medusa-3" {
			return Play{After: time.Second}
		}
		return Play{}
	}
	for _, step := range []struct {
		after time.Duration
		want  [3]string
	}{
		{0, [3]string{"running", "running", "ContainerCreating"}},
		{900 * time.Millisecond, [3]string{"running", "running", "ContainerCreating"}},
		{time.Second, [3]string{"running", "running", "running"}},
		{time.Second + hold, [3]string{"Completed", "running", "running"}},
		{time.Hour, [3]string{"Completed", "running", "running"}},
	} {
		p.advance(began.Add(step.after), script)
		s := p.status(nil)
		for i, want := range step.want {
			if got := say(s.EphemeralContainerStatuses[i]); got != want {
				t.Errorf("after %s container %s says %s, want %s", step.after, s.EphemeralContainerStatuses[i].Name, got, want)
			}
		}
		if len(s.ContainerStatuses) != 1 || !s.ContainerStatuses[0].Ready || s.Phase != corev1.PodRunning {
			t.Errorf("the pod itself: %+v", s)
		}
	}
}

// A node is as it is described.
func TestNodeObject(t *testing.T) {
	n := Node{Name: "n", OS: "windows", Kubelet: "v1.24.9", Has: corev1.NodeMemoryPressure}.object()
	if n.Labels[corev1.LabelOSStable] != "windows" || n.Status.NodeInfo.OperatingSystem != "windows" || n.Status.NodeInfo.KubeletVersion != "v1.24.9" {
		t.Errorf("%+v %+v", n.Labels, n.Status.NodeInfo)
	}
	holds := map[corev1.NodeConditionType]corev1.ConditionStatus{}
	for _, c := range n.Status.Conditions {
		holds[c.Type] = c.Status
	}
	if holds[corev1.NodeReady] != corev1.ConditionTrue || holds[corev1.NodeMemoryPressure] != corev1.ConditionTrue || holds[corev1.NodeDiskPressure] != corev1.ConditionFalse {
		t.Errorf("%v", holds)
	}
}
