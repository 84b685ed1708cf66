package simulated

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// provision has every claim get a volume, until the context ends. What is on it is
// with the node.
func (n *Node) provision(ctx context.Context) {
	claims := n.client.CoreV1().PersistentVolumeClaims("")
	one := func(claim *corev1.PersistentVolumeClaim, gone bool) {
		if gone || claim.Spec.VolumeName != "" || claim.Status.Phase == corev1.ClaimBound {
			return
		}
		// It is there already, or the API server is not: then the claim is seen again.
		_, _ = n.client.CoreV1().PersistentVolumes().Create(ctx, volumeOf(claim), metav1.CreateOptions{})
	}
	follow(ctx, followed[*corev1.PersistentVolumeClaim]{
		list: func(ctx context.Context, o metav1.ListOptions) ([]*corev1.PersistentVolumeClaim, string, error) {
			list, err := claims.List(ctx, o)
			if err != nil {
				return nil, "", err
			}
			return pointers(list.Items), list.ResourceVersion, nil
		},
		watch: claims.Watch, one: one,
		all: func(all []*corev1.PersistentVolumeClaim) {
			for _, claim := range all {
				one(claim, false)
			}
		},
	})
}

func volumeOf(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + string(claim.UID)},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      claim.Spec.Resources.Requests,
			AccessModes:                   claim.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/simulated/" + string(claim.UID)}},
			ClaimRef: &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
		},
	}
}

// catalogue is the storage of a namespace. The node's lock is held.
func (n *Node) catalogue(namespace string) *Catalogue {
	if n.catalogues[namespace] == nil {
		n.catalogues[namespace] = &Catalogue{}
	}
	return n.catalogues[namespace]
}

// Storage is that of a namespace.
func (n *Node) Storage(namespace string) *Catalogue {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.catalogue(namespace)
}

// Volume is a copy of what is on the volume of a claim now; nil where there is none.
func (n *Node) Volume(namespace, claim string) *Volume {
	n.mu.Lock()
	defer n.mu.Unlock()
	v := n.volumes[namespace+"/"+claim]
	if v == nil {
		return nil
	}
	c := *NewVolume(v.Data)
	c.Starts, c.Applying = v.Starts, v.Applying
	c.Done = append(c.Done, v.Done...)
	for id, times := range v.Replaced {
		c.Replaced[id] = times
	}
	for id, data := range v.Previous {
		c.Previous[id] = data
	}
	return &c
}
