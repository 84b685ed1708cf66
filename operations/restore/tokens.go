package restore

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// Reasons of tokens, and of all that is written down, that do not fit.
const (
	ReasonTokensDiffer = "TokensDiffer"
	ReasonTooLarge     = "TooLarge"
)

// tokenPattern is a token that the JVM can be given, as the webhook asks for it
// (patches/join.go; a test compares): it would refuse the pod, once it is down.
var tokenPattern = regexp.MustCompile(`^-?[0-9]{1,40}$`)

// fit tells whether a pod's node can join with the tokens of another. Their number has
// to be its num_tokens: at the first start they are taken, and saved; at the next
// Cassandra ends, as another number was saved (StorageService, "Cannot change the
// number of tokens").
func fit(pod *corev1.Pod, from string, tokens []string) *Problem {
	if i := slices.IndexFunc(tokens, func(token string) bool { return !tokenPattern.MatchString(token) }); i >= 0 {
		return &Problem{Reason: ReasonTokensDiffer, Message: fmt.Sprintf("node %s of the backup has token %q, which is none of Murmur3Partitioner or RandomPartitioner; mode %s takes no others", from, workload.Short(tokens[i]), api.Remote)}
	}
	n, where := numTokens(pod)
	if n == 0 || n == len(tokens) {
		return nil
	}
	return &Problem{Reason: ReasonTokensDiffer, Message: fmt.Sprintf("node %s of the backup has %s, and pod %s asks for %d (%s): Cassandra would not start a second time with another number than it saved. Set it to %d in the template, on a cluster without data of its own",
		from, counted(len(tokens), "token"), pod.Name, n, where, len(tokens))}
}

// numTokensInJSON is where cass-operator says it, in the configuration that its init
// container makes Cassandra's files of.
var numTokensInJSON = regexp.MustCompile(`"num_tokens"\s*:\s*"?([0-9]{1,5})\b`)

// numTokens is the num_tokens of a pod where its variables tell, and where they do; 0
// where they do not.
func numTokens(pod *corev1.Pod) (n int, where string) {
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		if workload.Own(c.Name) {
			continue
		}
		for _, v := range c.Env {
			text := ""
			switch v.Name {
			case "CASSANDRA_NUM_TOKENS", "NUM_TOKENS": // Docker's own image and Bitnami's; DSE's
				text = v.Value
			case "CONFIG_FILE_DATA":
				if found := numTokensInJSON.FindStringSubmatch(v.Value); found != nil {
					text = found[1]
				}
			}
			if is, err := strconv.Atoi(text); err == nil && is > 0 {
				n, where = is, "num_tokens by variable "+v.Name+" of container "+c.Name // of entries of a name the last one wins
			}
		}
	}
	return n, where
}

// unknownTokens mentions how many tokens the pods have to ask for, where they do not
// tell.
func unknownTokens(pods []*corev1.Pod, plan []api.PodRestore) string {
	var unknown []string
	tokens := 0
	for i := range plan {
		at := slices.IndexFunc(pods, func(pod *corev1.Pod) bool { return pod.Name == plan[i].Name })
		if at < 0 || len(plan[i].Tokens) == 0 {
			continue
		}
		if n, _ := numTokens(pods[at]); n == 0 {
			unknown, tokens = append(unknown, plan[i].Name), len(plan[i].Tokens)
		}
	}
	if len(unknown) == 0 {
		return ""
	}
	return fmt.Sprintf("See that num_tokens is %d in the configuration of %s, as it was when the backup was made: Cassandra does not start a second time with another number than it saved", tokens, someOf(unknown))
}

// What etcd takes of one object by default is 1.5 MiB (etcd, --max-request-bytes).
// Each pod also has its name in other lists, a message by and by, and its entry in
// metadata.managedFields.
const (
	mostOfStatus  = 1300 << 10
	besidesOfEach = failureLimit + 500
)

// tooLarge tells whether the status would not fit into etcd: what could not be written
// down any more would stop in the middle.
func tooLarge(plan []api.PodRestore) *Problem {
	text, err := json.Marshal(plan)
	size := len(text) + len(plan)*besidesOfEach
	if err != nil || size <= mostOfStatus {
		return nil
	}
	return &Problem{Reason: ReasonTooLarge, Message: fmt.Sprintf("the state of %s with their tokens would be some %s, and an object has room for %s; restore %d at a time, in several Restores",
		counted(len(plan), "pod"), sizeText(int64(size)), sizeText(mostOfStatus), max(1, len(plan)*mostOfStatus/size))}
}
