package coverage

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// tellAsked tells of the pods of the cache, which has those without our containers,
// that ask for a restore. This package has them all anyway.
func tellAsked(c cache.Cache, tell func(*metav1.PartialObjectMetadata)) error {
	if tell == nil {
		return nil
	}
	informer, err := c.GetInformer(context.Background(), metadata("Pod"), cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	if _, err := informer.AddEventHandler(askedHandler(tell)); err != nil {
		return fmt.Errorf("watching for requests: %w", err)
	}
	return nil
}

func askedHandler(tell func(*metav1.PartialObjectMetadata)) toolscache.ResourceEventHandlerFuncs {
	look := func(before, after any) {
		pod, ok := after.(*metav1.PartialObjectMetadata)
		if !ok {
			return
		}
		value, asks := pod.Annotations[api.AnnotationRestore]
		if !asks {
			return
		}
		if was, ok := before.(*metav1.PartialObjectMetadata); ok && was.UID == pod.UID {
			if had, did := was.Annotations[api.AnnotationRestore]; did && had == value {
				return
			}
		}
		tell(pod)
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(pod any) { look(nil, pod) },
		UpdateFunc: look,
	}
}
