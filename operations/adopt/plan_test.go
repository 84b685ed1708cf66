package adopt

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
)

func TestPlan(t *testing.T) {
	agent, snapshot, medusa := patches.RoleAgent, patches.RoleSnapshot, patches.RoleMedusa
	anna := []patches.Role{agent}
	for name, c := range map[string]struct {
		make func(p *corev1.Pod)
		edit func(p *Pod)
		at   time.Duration // after the first round
		want string
	}{
		"nothing yet":              {func(*corev1.Pod) {}, nil, 0, " add 1 all"},
		"nothing yet, not asked":   {func(*corev1.Pod) {}, func(p *Pod) { p.Asked = false }, 0, "  not-asked"},
		"a name of ours by others": {func(p *corev1.Pod) { foreign(p, "stategraft-medusa-7") }, nil, 0, " add 8 all"},
		"just added":               {func(p *corev1.Pod) { round(p, start, cassandra) }, nil, time.Hour, "adopting"},
		"being made":               {func(p *corev1.Pod) { round(p, start, cassandra); is(p, agent, waits("ContainerCreating")) }, nil, time.Hour, "adopting"},
		"the agent installs":       {func(p *corev1.Pod) { bringing(p, runsSince(start)) }, nil, time.Minute, "adopting"},
		"it brings nothing":        {func(p *corev1.Pod) { bringing(p, runsSince(start)) }, nil, time.Hour, "waiting"},
		"one was long pulled":      {func(p *corev1.Pod) { bringing(p, runsSince(start.Add(59*time.Minute))) }, nil, time.Hour, "adopting"},
		"one is pulled":            {func(p *corev1.Pod) { bringing(p, waits("ContainerCreating")) }, nil, time.Hour, "adopting"},
		"nothing in a later round": {func(p *corev1.Pod) {
			up(p)
			is(p, medusa, ended(1, start))
			round(p, start, cassandra, medusa)
			is(p, agent, runsSince(start))
			is(p, medusa, runsSince(start))
		}, nil, time.Hour, "waiting"},
		"up":                        {func(p *corev1.Pod) { round(p, start, cassandra); allUp(p) }, nil, 0, "adopted label"},
		"up and labelled":           {func(p *corev1.Pod) { round(p, start, cassandra); allUp(p); label(p) }, nil, 0, "adopted"},
		"up, not asked any more":    {func(p *corev1.Pod) { round(p, start, cassandra); allUp(p) }, func(p *Pod) { p.Asked = false }, 0, "adopted"},
		"of Anna, up":               {func(p *corev1.Pod) { round(p, start, anna); allUp(p) }, nil, 0, "adopted label"},
		"of Anna, done is ended":    {func(p *corev1.Pod) { round(p, start, anna); is(p, agent, ended(0, start)) }, nil, time.Minute, "waiting add 2 all"},
		"the image is missing":      {func(p *corev1.Pod) { round(p, start, cassandra); is(p, medusa, waits("ImagePullBackOff")) }, nil, 100 * time.Hour, "waiting"},
		"a Secret is missing":       {func(p *corev1.Pod) { round(p, start, cassandra); is(p, medusa, waits("CreateContainerConfigError")) }, nil, 100 * time.Hour, "waiting"},
		"the image was, is another": {func(p *corev1.Pod) { round(p, start, cassandra); is(p, medusa, waits("ImagePullBackOff")) }, digest(medusa, "e"), time.Hour, "waiting add 4 all"},
		"and at once":               {func(p *corev1.Pod) { round(p, start, cassandra); is(p, medusa, waits("ImagePullBackOff")) }, digest(medusa, "e"), time.Second, "waiting  backing-off 30s"},
		"the same image":            {func(p *corev1.Pod) { round(p, start, cassandra); is(p, medusa, waits("ImagePullBackOff")) }, digest(medusa, "d"), time.Hour, "waiting"},
		"one that runs has another": {func(p *corev1.Pod) { round(p, start, cassandra); allUp(p); label(p) }, digest(medusa, "e"), time.Hour, "adopted"},
		"Medusa has just ended":     {func(p *corev1.Pod) { up(p); is(p, medusa, ended(137, start.Add(time.Hour))) }, nil, time.Hour, "waiting  backing-off 1h0m30s"},
		"Medusa has ended":          {func(p *corev1.Pod) { up(p); is(p, medusa, ended(137, start.Add(time.Hour))) }, nil, time.Hour + time.Minute, "waiting add 4 [medusa]"},
		"it ended well":             {func(p *corev1.Pod) { up(p); is(p, medusa, ended(0, start)) }, nil, time.Minute, "waiting add 4 [medusa]"},
		"by a clock that is ahead":  {func(p *corev1.Pod) { up(p); is(p, medusa, ended(1, start.Add(50*time.Hour))) }, nil, time.Hour, "waiting add 4 [medusa]"},
		"both have ended":           {func(p *corev1.Pod) { up(p); is(p, medusa, ended(1, start)); is(p, snapshot, ended(1, start)) }, nil, time.Hour, "waiting add 4 all"},
		"the agent has failed":      {func(p *corev1.Pod) { round(p, start, cassandra); allUp(p); is(p, agent, ended(1, start)) }, nil, time.Hour, "waiting add 4 all"},
		"and of a later round": {func(p *corev1.Pod) {
			up(p)
			round(p, start, cassandra, medusa)
			allUp(p)
			is(p, agent, ended(1, start))
		}, nil, time.Hour, "waiting add 6 [medusa]"},
		"Medusa ended as agent works": {func(p *corev1.Pod) { round(p, start, cassandra); is(p, agent, runs); is(p, medusa, ended(1, start)) }, nil, time.Hour, "waiting add 4 all"},
		"not asked any more":          {func(p *corev1.Pod) { up(p); is(p, snapshot, ended(1, start)) }, func(p *Pod) { p.Asked = false }, time.Hour, "waiting  not-asked"},
		"not asked, nothing serves":   {func(p *corev1.Pod) { up(p); is(p, medusa, ended(1, start)) }, func(p *Pod) { p.Asked = false }, time.Hour, "waiting unlabel not-asked"},
		"another pair":                {up, func(p *Pod) { p.Pair = "q" }, time.Hour, "adopted add 4 all"},
		"another pair, just added":    {up, func(p *Pod) { p.Pair = "q" }, time.Second, "adopted  backing-off 30s"},
		"another pair, no TLS":        {func(p *corev1.Pod) { up(p); plain(p) }, func(p *Pod) { p.Pair = "q" }, time.Hour, "adopted"},
		"the pair is not known":       {up, func(p *Pod) { p.Pair = "" }, time.Hour, "adopted"},
		"asked for anew":              {up, func(p *Pod) { p.Renew = "1" }, time.Hour, "adopted add 4 all"},
		"asked for anew, it had failed": {func(p *corev1.Pod) {
			up(p)
			for range 2 {
				is(p, medusa, ended(1, start))
				round(p, start, cassandra, medusa)
			}
			allUp(p)
		}, func(p *Pod) { p.Renew = "1" }, time.Minute, "adopted add 8 all"},
		"asked for anew, and not on":   {up, func(p *Pod) { p.Renew, p.Asked = "1", false }, time.Hour, "adopted  not-asked"},
		"taking over":                  {func(p *corev1.Pod) { up(p); round(p, start.Add(time.Hour), cassandra) }, nil, 2 * time.Hour, "adopting"},
		"the one that takes over ends": {func(p *corev1.Pod) { up(p); round(p, start, cassandra); allUp(p); is(p, medusa, ended(1, start)) }, nil, 2 * time.Hour, "waiting add 7 [medusa]"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := aPod("c-0", "c", "n")
			c.make(pod)
			p := Of(pod)
			p.Asked, p.Pair, p.Now = true, "p", start.Add(c.at)
			if c.edit != nil {
				c.edit(&p)
			}
			if got := described(Plan(p)); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// Rounds of a day, and after it.
func TestPlanOften(t *testing.T) {
	pod := aPod("c-0", "c", "n")
	round(pod, start, cassandra)
	allUp(pod)
	label(pod)
	at := start
	for i, wait := range []string{"30s", "2m0s", "8m0s", "32m0s"} {
		is(pod, patches.RoleMedusa, ended(1, at))
		p := Of(pod)
		p.Asked, p.Now = true, at
		step := Plan(p)
		if step.Reason != ReasonBackingOff || step.Until.Sub(at).String() != wait {
			t.Fatalf("round %d: %+v", i+2, step)
		}
		at = step.Until
		if p.Now = at; Plan(p).Do != DoAdd {
			t.Fatalf("round %d: %+v", i+2, Plan(p))
		}
		round(pod, at, cassandra, patches.RoleMedusa)
		allUp(pod)
	}
	is(pod, patches.RoleMedusa, ended(1, at))
	p := Of(pod)
	p.Asked, p.Now = true, at.Add(time.Hour)
	if step := Plan(p); step.State != StateFailed || step.Do != DoUnlabel || step.Reason != ReasonExhausted || !step.Until.Equal(start.Add(day)) || !strings.Contains(step.Text, "5 times within a day") {
		t.Errorf("after 5 rounds: %+v", step)
	}
	p.Now = start.Add(day)
	if step := Plan(p); step.Do != DoAdd {
		t.Errorf("after a day: %+v", step)
	}
	p.Now = at.Add(2 * day)
	if step := Plan(p); step.Do != DoAdd || step.Next != 12 {
		t.Errorf("after two days: %+v", step)
	}
}

// Containers stay on a pod for ever.
func TestPlanMany(t *testing.T) {
	pod := aPod("c-0", "c", "n")
	label(pod)
	for i := range 20 {
		round(pod, start.Add(time.Duration(i)*day), cassandra)
		allUp(pod)
	}
	p := Of(pod)
	p.Asked, p.Renew, p.Now = true, "1", start.Add(100*day)
	if step := Plan(p); len(p.Parts) != MaxContainers || step.Do != DoNothing || step.Reason != ReasonExhausted || step.State != StateAdopted || !step.Until.IsZero() {
		t.Errorf("it serves: %+v", step)
	}
	for _, role := range cassandra {
		is(pod, role, ended(1, start))
	}
	for i := range pod.Status.EphemeralContainerStatuses {
		pod.Status.EphemeralContainerStatuses[i].State = ended(1, start)
	}
	p = Of(pod)
	p.Asked, p.Now = true, start.Add(100*day)
	if step := Plan(p); step.Do != DoUnlabel || step.State != StateFailed {
		t.Errorf("nothing serves: %+v", step)
	}
}

func described(s Step) string {
	text := string(s.State)
	switch {
	case s.Do == DoAdd && s.Roles == nil:
		text += fmt.Sprintf(" add %d all", s.Next)
	case s.Do == DoAdd:
		text += fmt.Sprintf(" add %d %v", s.Next, s.Roles)
	case s.Do != DoNothing || s.Reason != "":
		text += " " + string(s.Do)
	}
	if s.Reason != "" {
		text += " " + string(s.Reason)
	}
	if !s.Until.IsZero() {
		text += " " + s.Until.Sub(start).String()
	}
	return text
}

func label(p *corev1.Pod) { p.Labels = map[string]string{api.LabelInjected: "cassandra"} }

// bringing has an agent that has run since the start, and a Medusa that does so.
func bringing(p *corev1.Pod, medusa corev1.ContainerState) {
	round(p, start, cassandra)
	is(p, patches.RoleAgent, runsSince(start))
	is(p, patches.RoleSnapshot, runsSince(start))
	is(p, patches.RoleMedusa, medusa)
}

func runsSince(at time.Time) corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(at)}}
}

// up has been adopted.
func up(p *corev1.Pod) {
	round(p, start, cassandra)
	allUp(p)
	label(p)
}

// plain has no certificate.
func plain(p *corev1.Pod) {
	for i := range p.Spec.EphemeralContainers {
		c := &p.Spec.EphemeralContainers[i]
		c.Env = slices.DeleteFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == envCertificate })
	}
}

func digest(role patches.Role, now string) func(*Pod) {
	return func(p *Pod) { p.Digests = map[patches.Role]string{role: now} }
}

func foreign(p *corev1.Pod, name string) {
	p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name}})
}
