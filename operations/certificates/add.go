package certificates

import (
	"context"
	"errors"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/scope"
)

// Add adds the controllers to the manager. They act on the leader only.
func Add(mgr manager.Manager, o Options) error {
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	if o.Source == nil {
		if o.Source, err = NewSource(mgr, o); err != nil {
			return err
		}
	}
	serving, err := watchOne(mgr, &corev1.Secret{}, o.Namespace, SecretServing)
	if err != nil {
		return err
	}
	if o.Mode == SelfSigned {
		if err := addRotation(mgr, o, serving); err != nil {
			return fmt.Errorf("adding the rotation of certificates: %w", err)
		}
	}
	if err := addNamespaces(mgr, o); err != nil {
		return fmt.Errorf("adding the certificates of namespaces: %w", err)
	}
	if err := errors.Join(
		addExpiry(mgr, o, SecretAuthority, certificateCA, o.Source.informer),
		addExpiry(mgr, o, SecretServing, certificateWebhook, serving),
	); err != nil {
		return fmt.Errorf("adding the expiry of certificates: %w", err)
	}
	return nil
}

// one is the only request of a controller that looks at everything at once.
var one = reconcile.Request{}

func toOne[T client.Object]() handler.TypedEventHandler[T, reconcile.Request] {
	return handler.TypedEnqueueRequestsFromMapFunc(func(context.Context, T) []reconcile.Request { return []reconcile.Request{one} })
}

func addRotation(mgr manager.Manager, o Options, serving cache.Cache) error {
	configuration, err := watchOne(mgr, &admissionregistrationv1.MutatingWebhookConfiguration{}, "", o.WebhookConfiguration)
	if err != nil {
		return err
	}
	const name = "certificates-rotation"
	r := &rotation{options: o, reader: mgr.GetAPIReader(), writer: mgr.GetClient(), log: mgr.GetLogger().WithName(name), now: time.Now}
	// Where there is nothing yet, there is no event either.
	begin := make(chan event.TypedGenericEvent[client.Object], 1)
	begin <- event.TypedGenericEvent[client.Object]{Object: &corev1.Secret{}}
	return builder.ControllerManagedBy(mgr).Named(name).
		WatchesRawSource(source.TypedChannel(begin, toOne[client.Object]())).
		WatchesRawSource(source.Kind(o.Source.informer, &corev1.Secret{}, toOne[*corev1.Secret]())).
		WatchesRawSource(source.Kind(serving, &corev1.Secret{}, toOne[*corev1.Secret]())).
		WatchesRawSource(source.Kind(configuration, &admissionregistrationv1.MutatingWebhookConfiguration{}, toOne[*admissionregistrationv1.MutatingWebhookConfiguration]())).
		Complete(r)
}

func addNamespaces(mgr manager.Manager, o Options) error {
	secrets, err := watchOne(mgr, &corev1.Secret{}, "", SecretGRPC)
	if err != nil {
		return err
	}
	const name = "certificates-namespaces"
	n := &namespaces{namespaces: mgr.GetCache(), secrets: secrets, writer: mgr.GetClient(), source: o.Source, own: o.Namespace, validity: o.Validity,
		events: mgr.GetEventRecorder("stategraft-controller"), now: time.Now}
	toNamespace := handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, secret *corev1.Secret) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: secret.Namespace}}}
	})
	// A new authority concerns every Secret, also of namespaces without the label.
	toAll := handler.TypedEnqueueRequestsFromMapFunc(func(ctx context.Context, _ *corev1.Secret) []reconcile.Request {
		return allNamespaces(ctx, mgr.GetCache(), secrets, o.Namespace)
	})
	asks := func(object client.Object) bool { return scope.Asks(object, o.Namespace) }
	return builder.ControllerManagedBy(mgr).Named(name).
		WatchesMetadata(&corev1.Namespace{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(e event.CreateEvent) bool { return asks(e.Object) },
			UpdateFunc: func(e event.UpdateEvent) bool { return asks(e.ObjectOld) || asks(e.ObjectNew) },
		})).
		WatchesRawSource(source.Kind(secrets, &corev1.Secret{}, toNamespace)).
		WatchesRawSource(source.Kind(o.Source.informer, &corev1.Secret{}, toAll)).
		Complete(n)
}

// allNamespaces are those that ask for a Secret and those that have one.
func allNamespaces(ctx context.Context, namespaces, secrets client.Reader, own string) []reconcile.Request {
	found := map[string]bool{}
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := namespaces.List(ctx, &list, client.MatchingLabels{api.LabelInject: api.InjectEnabled}); err == nil {
		for i := range list.Items {
			if scope.Asks(&list.Items[i], own) {
				found[list.Items[i].Name] = true
			}
		}
	}
	var with corev1.SecretList
	if err := secrets.List(ctx, &with, client.UnsafeDisableDeepCopy); err == nil {
		for _, s := range with.Items {
			found[s.Namespace] = true
		}
	}
	var requests []reconcile.Request
	for name := range found {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
	}
	return requests
}

func addExpiry(mgr manager.Manager, o Options, secret, certificate string, informer cache.Cache) error {
	name := "certificates-expiry-" + certificate
	e := &expiryOf{reader: informer, key: client.ObjectKey{Namespace: o.Namespace, Name: secret}, certificate: certificate, log: mgr.GetLogger().WithName(name)}
	return builder.ControllerManagedBy(mgr).Named(name).
		WatchesRawSource(source.Kind(informer, &corev1.Secret{}, toOne[*corev1.Secret]())).
		Complete(e)
}

// watchOne makes an informer of the objects of one name, in one namespace or in
// all (""). The rights to list and watch can then be bound to that name
// (k8s.io/apiserver/pkg/endpoints/request/requestinfo.go takes it from the field
// selector).
func watchOne(mgr manager.Manager, object client.Object, namespace, name string) (cache.Cache, error) {
	options := cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject:         map[client.Object]cache.ByObject{object: {Field: fields.OneTermEqualSelector("metadata.name", name)}},
	}
	if namespace != "" {
		options.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	}
	informers, err := cache.New(mgr.GetConfig(), options)
	if err != nil {
		return nil, fmt.Errorf("watching %T %s: %w", object, name, err)
	}
	if _, err := informers.GetInformer(context.Background(), object, cache.BlockUntilSynced(false)); err != nil {
		return nil, fmt.Errorf("watching %T %s: %w", object, name, err)
	}
	if err := mgr.Add(startsFirst{informers}); err != nil {
		return nil, fmt.Errorf("watching %T %s: %w", object, name, err)
	}
	return informers, nil
}

// startsFirst makes the manager start a cache before the controllers, and wait
// for it, as it does with its own.
type startsFirst struct{ cache.Cache }

// GetCache is what the manager knows such a runnable by.
func (s startsFirst) GetCache() cache.Cache { return s.Cache }
