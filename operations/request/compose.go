package request

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// Annotations of a Restore that was made for annotated pods: the UIDs of those that
// asked, and the value of their annotation. By them it is found again if we end
// before the pods are answered.
const (
	AnnotationAskedBy  = api.Group + "/asked-by"
	AnnotationAskedFor = api.Group + "/asked-for"
)

// compose makes the Restore that pods of one owner ask for with one value. Its name
// follows from that; attempt tells apart what is asked for again.
func compose(pods []*corev1.Pod, value string, attempt int) *api.Restore {
	uids := make([]string, 0, len(pods))
	r := &api.Restore{Spec: api.RestoreSpec{Backup: value, Mode: api.InPlace, WhenNoBackup: api.NoBackupFail, KeepPrevious: api.KeepIfRoom}}
	owner := pods[0].Name
	if c := metav1.GetControllerOf(pods[0]); c != nil {
		owner = c.Name
	}
	for _, pod := range pods {
		uids = append(uids, string(pod.UID))
		r.Spec.Pods.Names = append(r.Spec.Pods.Names, pod.Name)
		if source := pod.Annotations[api.AnnotationRestoreSource]; source != "" {
			if r.Spec.Source == nil {
				r.Spec.Source = &api.RestoreSource{Nodes: map[string]string{}}
			}
			r.Spec.Source.Nodes[pod.Name] = source
		}
	}
	slices.Sort(uids)
	slices.Sort(r.Spec.Pods.Names)
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %d", value, uids, attempt))
	// A StatefulSet's name is one of a DNS label or longer; with the hash it stays a
	// name for whatever is called after the Restore.
	const longest = 40
	r.Namespace = pods[0].Namespace
	r.Name = strings.TrimRight(owner[:min(len(owner), longest)], "-.") + "-" + hex.EncodeToString(sum[:5])
	r.Annotations = map[string]string{AnnotationAskedBy: strings.Join(uids, ","), AnnotationAskedFor: value}
	return r
}

// made finds the Restore that was made for what a pod asks: one that names the very
// pod, or one that is still at it under the same name.
func made(all []api.Restore, pod *corev1.Pod, value string) *api.Restore {
	for i := range all {
		r := &all[i]
		if asked, ours := r.Annotations[AnnotationAskedFor]; !ours || asked != value {
			continue
		}
		if askedBy(r, pod.UID) {
			return r
		}
		at := r.Status.Pod(pod.Name)
		if !r.Status.Phase.Final() && r.DeletionTimestamp == nil &&
			slices.Contains(r.Spec.Pods.Names, pod.Name) && (at == nil || at.Phase != api.PodRestored) {
			return r
		}
	}
	return nil
}

func askedBy(r *api.Restore, uid types.UID) bool {
	return slices.Contains(strings.Split(r.Annotations[AnnotationAskedBy], ","), string(uid))
}

// withdraw takes a pod off those that asked for a Restore; ok says whether it was
// one of them.
func withdraw(r *api.Restore, uid types.UID) (rest string, ok bool) {
	if !askedBy(r, uid) {
		return "", false
	}
	uids := strings.Split(r.Annotations[AnnotationAskedBy], ",")
	return strings.Join(slices.DeleteFunc(uids, func(u string) bool { return u == string(uid) }), ","), true
}
