// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

const (
	portalNamespace = "portal-emulator"
	portalPort      = 8443
	adminPort       = 8444
	accounts        = 24
	// jobs is the minimum duration of each of the portal's jobs.
	jobs = "5s"
)

// portal is the emulator in its Pod.
type portal struct {
	home  *management
	pod   *corev1.Pod
	ca    string
	admin forward
}

// startPortal runs the emulator in the management cluster.
func startPortal(ctx context.Context, m *management) (*portal, error) {
	image := os.Getenv("E2E_EMULATOR_IMAGE")
	if image == "" {
		image = "portal-emulator:e2e"
		if err := buildEmulator(ctx, image); err != nil {
			return nil, err
		}
		if err := m.load(ctx, image); err != nil {
			return nil, err
		}
	}
	p := &portal{home: m, pod: emulatorPod(image)}
	users, err := portalUsers()
	if err != nil {
		return nil, err
	}
	for _, object := range []client.Object{
		newNamespace(portalNamespace),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: portalNamespace, Name: "users"}, Data: map[string][]byte{"users.yaml": users}},
		p.pod,
	} {
		if err := m.Create(ctx, object); err != nil {
			return nil, err
		}
	}
	if err := p.awaitReady(ctx); err != nil {
		return nil, err
	}
	if p.admin, err = forwardTo(m, p.pod, adminPort); err != nil {
		return nil, err
	}
	ca, err := p.ask(ctx, http.MethodGet, "/ca", nil)
	p.ca = string(ca)
	return p, err
}

func email(i int) string    { return fmt.Sprintf("e2e-%d@portal.example", i) }
func password(i int) string { return fmt.Sprintf("password of user %d", i) }
func account(i int) string  { return fmt.Sprintf("account-%d", i) }

// portalUsers returns the portal's users, one for each account, in the emulator's format.
func portalUsers() ([]byte, error) {
	var users []map[string]string
	for i := range accounts {
		users = append(users, map[string]string{"email": email(i), "password": password(i), "account": account(i)})
	}
	return yaml.Marshal(users)
}

// emulatorPod returns a Pod that uses the network and the address of its node.
func emulatorPod(image string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: portalNamespace, Name: "portal"},
		Spec: corev1.PodSpec{
			HostNetwork:     true,
			RestartPolicy:   corev1.RestartPolicyNever, // a restart would lose the emulator's state
			SecurityContext: &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](65532), FSGroup: ptr.To[int64](65532)},
			Tolerations:     []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: "portal", Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
				Env: []corev1.EnvVar{{Name: "ADDRESS", ValueFrom: &corev1.EnvVarSource{
					FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.hostIP"},
				}}},
				Args: []string{
					fmt.Sprintf("--listen=0.0.0.0:%d", portalPort), fmt.Sprintf("--admin-listen=127.0.0.1:%d", adminPort),
					"--host=$(ADDRESS)", "--workload-host=$(ADDRESS)", "--workload-bind=0.0.0.0",
					"--kubernetes-binaries=/kubernetes", "--users-file=/users/users.yaml",
					"--job-duration=all=" + jobs, "--victim-order=random", "--seed=1", "--request-log=-",
				},
				// The API servers of all clusters run in this container. Without a request they would get only the CPU that other Pods
				// leave.
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")}},
				ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
					TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(portalPort)},
				}},
				VolumeMounts: []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}, {Name: "users", MountPath: "/users"}},
			}},
			Volumes: []corev1.Volume{
				{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "users", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "users"}}},
			},
		},
	}
}

func (p *portal) awaitReady(ctx context.Context) error {
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		if err := p.home.Get(ctx, client.ObjectKeyFromObject(p.pod), p.pod); err != nil {
			return false, err
		}
		return slices.ContainsFunc(p.pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}), nil
	})
	if err != nil {
		return fmt.Errorf("%w; its containers: %+v", err, p.pod.Status.ContainerStatuses)
	}
	return nil
}

// identity returns a Secret with the credentials of the i-th user.
func (p *portal) identity(key client.ObjectKey, i int) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		StringData: map[string]string{
			infrav1.IdentityBaseURL:  fmt.Sprintf("https://%s:%d", p.pod.Status.HostIP, portalPort),
			infrav1.IdentityEmail:    email(i),
			infrav1.IdentityPassword: password(i),
			infrav1.IdentityCABundle: p.ca,
		},
	}
}

func (p *portal) requestLog(ctx context.Context) ([]emulator.LogEntry, error) {
	return books[emulator.LogEntry](ctx, p, "/request-log")
}

func (p *portal) clusters(ctx context.Context) ([]emulator.Cluster, error) {
	return books[emulator.Cluster](ctx, p, "/clusters")
}

func (p *portal) inject(ctx context.Context, f emulator.Fault) error {
	body, err := json.Marshal(f)
	if err == nil {
		_, err = p.ask(ctx, http.MethodPost, "/faults", body)
	}
	return err
}

func (p *portal) removeFault(ctx context.Context, id string) error {
	_, err := p.ask(ctx, http.MethodDelete, "/faults/"+id, nil)
	return err
}

// books reads a list from the admin listener.
func books[T any](ctx context.Context, p *portal, path string) (list []T, err error) {
	content, err := p.ask(ctx, http.MethodGet, path, nil)
	if err == nil {
		err = json.Unmarshal(content, &list)
	}
	return list, err
}

func (p *portal) ask(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, p.admin.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	for tries := 1; err != nil && method == http.MethodGet && tries < 10; tries++ { // the port forward may be reconnecting
		time.Sleep(time.Second)
		response, err = http.DefaultClient.Do(request)
	}
	if err != nil {
		return nil, fmt.Errorf("the emulator's admin listener: %w", err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("the emulator's admin listener: %s %s: %s: %s", method, path, response.Status, content)
	}
	return content, err
}
