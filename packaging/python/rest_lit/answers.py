"""Answers of the server, as dataclasses.  Written by make pages from /openapi.json."""
from __future__ import annotations

import typing
from dataclasses import dataclass


@dataclass(frozen=True)
class Note:
    message: str
    pointer: typing.Optional[str] = None
    line: typing.Optional[int] = None
    column: typing.Optional[int] = None


@dataclass(frozen=True)
class RetryDetails:
    user: int
    platform: int
    resource: int


@dataclass(frozen=True)
class WaitingReason:
    kind: str
    reason: str
    message: str
    taskRoleName: typing.Optional[str] = None
    taskIndex: typing.Optional[int] = None
    type: typing.Optional[str] = None
    count: typing.Optional[int] = None
    lastTimestamp: typing.Optional[int] = None
    nextAttemptTime: typing.Optional[int] = None


@dataclass(frozen=True)
class JobRow:
    name: str
    username: str
    state: str
    subState: str
    executionType: str
    virtualCluster: str
    retries: int
    createdTime: typing.Optional[int]
    completedTime: typing.Optional[int]
    appExitCode: typing.Optional[int]
    debugId: str
    tags: list[str]
    retryDetails: RetryDetails
    retryDelayTime: typing.Optional[int]
    submissionTime: typing.Optional[int]
    launchedTime: typing.Optional[int]
    totalGpuNumber: int
    totalTaskNumber: int
    totalTaskRoleNumber: int
    jobPriority: typing.Optional[str]
    previousExitCode: typing.Optional[int] = None
    gpuIdleSince: typing.Optional[int] = None
    waitingReason: typing.Optional[WaitingReason] = None


@dataclass(frozen=True)
class ExitSpec:
    code: int
    phrase: str
    issuer: typing.Optional[str] = None
    causer: typing.Optional[str] = None
    type: typing.Optional[str] = None
    stage: typing.Optional[str] = None
    behavior: typing.Optional[str] = None
    reaction: typing.Optional[str] = None
    reason: typing.Optional[str] = None
    repro: typing.Optional[list[str]] = None
    solution: typing.Optional[list[str]] = None
    pattern: typing.Optional[dict[str, typing.Any]] = None


@dataclass(frozen=True)
class AppExitMessages:
    container: typing.Optional[str]
    runtime: typing.Optional[dict[str, typing.Any]]
    launcher: typing.Optional[str]


@dataclass(frozen=True)
class PreviousEnd:
    appExitCode: int
    appExitSpec: typing.Optional[ExitSpec]
    appExitDiagnostics: typing.Optional[str]
    appExitMessages: typing.Optional[AppExitMessages]
    alike: int


@dataclass(frozen=True)
class Follower:
    taskRole: str
    taskIndex: int
    exitCode: int
    cause: str


@dataclass(frozen=True)
class FirstFailure:
    taskRole: str
    taskIndex: int
    rank: typing.Optional[int]
    time: typing.Optional[int]
    exitCode: int
    exitSpec: typing.Optional[ExitSpec]
    cause: str
    lines: list[str]
    followers: list[Follower]
    followersCount: int


@dataclass(frozen=True)
class JobStatus:
    username: str
    state: str
    subState: str
    executionType: str
    retries: int
    retryDetails: RetryDetails
    retryDelayTime: typing.Optional[int]
    submissionTime: typing.Optional[int]
    createdTime: typing.Optional[int]
    launchedTime: typing.Optional[int]
    completedTime: typing.Optional[int]
    virtualCluster: str
    attemptState: str
    appProgress: int
    appTrackingUrl: str
    appCreatedTime: typing.Optional[int]
    appLaunchedTime: typing.Optional[int]
    appCompletedTime: typing.Optional[int]
    appExitCode: typing.Optional[int]
    appExitSpec: typing.Optional[ExitSpec]
    appExitType: typing.Optional[str]
    appExitTriggerMessage: typing.Optional[str]
    appExitTriggerTaskRoleName: typing.Optional[str]
    appExitTriggerTaskIndex: typing.Optional[int]
    appExitDiagnostics: typing.Optional[str]
    appExitMessages: typing.Optional[AppExitMessages]
    gpuIdleSince: typing.Optional[int] = None
    attemptId: typing.Optional[int] = None
    appId: typing.Optional[str] = None
    previousEnd: typing.Optional[PreviousEnd] = None
    firstFailure: typing.Optional[FirstFailure] = None
    waitingReason: typing.Optional[WaitingReason] = None
    stopReason: typing.Optional[str] = None
    gpuKeptUntil: typing.Optional[int] = None
    gpuKeepReason: typing.Optional[str] = None
    resultsDeleted: typing.Optional[bool] = None


@dataclass(frozen=True)
class TaskRoleStatus:
    name: str
    imageUnused: typing.Optional[str] = None
    gpuNumber: typing.Optional[int] = None
    gracePeriodSeconds: typing.Optional[int] = None


@dataclass(frozen=True)
class Hived:
    affinityGroupName: typing.Optional[str]
    lazyPreempted: typing.Optional[bool]
    lazyPreemptionStatus: typing.Optional[str]


@dataclass(frozen=True)
class TaskStatus:
    taskIndex: typing.Optional[int]
    taskUid: typing.Optional[str]
    taskState: str
    retries: typing.Optional[int]
    accountableRetries: typing.Optional[int]
    createdTime: typing.Optional[int]
    launchedTime: typing.Optional[int]
    completedTime: typing.Optional[int]
    attemptState: str
    attemptId: typing.Optional[int]
    currentAttemptCreatedTime: typing.Optional[int]
    currentAttemptLaunchedTime: typing.Optional[int]
    currentAttemptCompletedTime: typing.Optional[int]
    containerId: typing.Optional[str]
    containerIp: typing.Optional[str]
    containerNodeName: typing.Optional[str]
    containerPorts: dict[str, str]
    containerGpus: typing.Optional[str]
    containerLog: typing.Optional[str]
    containerExitCode: typing.Optional[int]
    containerExitSpec: typing.Optional[ExitSpec]
    containerExitDiagnostics: typing.Optional[str]
    previousExitCode: typing.Optional[int] = None
    deletionDue: typing.Optional[int] = None
    gpuIndexes: typing.Optional[list[int]] = None
    hived: typing.Optional[Hived] = None


@dataclass(frozen=True)
class TaskRole:
    taskRoleStatus: TaskRoleStatus
    taskStatuses: list[TaskStatus]


@dataclass(frozen=True)
class Job:
    debugId: str
    name: str
    tags: list[str]
    jobStatus: JobStatus
    taskRoles: dict[str, TaskRole]
