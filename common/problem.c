// A problem to run: Q, K, V from NPY files or from a seed, and room for O and LSE.
#include "common/problem.h"

#include "common/npy.h"

// Allocates O and LSE, filled with NaN.
static AttnStatus allocate_output(Problem *problem) {
    AttnStatus status = tensor_alloc_q(&problem->o, DTYPE_F32, &problem->shape);
    if (status == ATTN_OK) {
        status = tensor_alloc_lse(&problem->lse, &problem->shape);
    }
    return status;
}

// Frees what there is on an error. Returns `status`.
static AttnStatus finish(Problem *problem, AttnStatus status) {
    if (status != ATTN_OK) {
        problem_free(problem);
    }
    return status;
}

AttnStatus problem_random(Problem *problem, const AttnShape *shape, DType dtype, uint64_t seed) {
    *problem = (Problem){0};
    AttnStatus status = attn_check_shape(shape);
    if (status != ATTN_OK) {
        return status;
    }
    problem->shape = *shape;
    problem->dtype = dtype;
    status = tensor_alloc_q(&problem->q, DTYPE_F32, shape);
    if (status == ATTN_OK) {
        status = tensor_alloc_kv(&problem->k, DTYPE_F32, shape);
    }
    if (status == ATTN_OK) {
        status = tensor_alloc_kv(&problem->v, DTYPE_F32, shape);
    }
    if (status == ATTN_OK) {
        status = allocate_output(problem);
    }
    if (status == ATTN_OK) {
        Tensor *inputs[] = {&problem->q, &problem->k, &problem->v};
        for (uint64_t i = 0; i < 3; i++) {
            tensor_fill_random(inputs[i], 3 * seed + i, 1.0);
            tensor_round_to(inputs[i], dtype);
        }
    }
    return finish(problem, status);
}

// Reads one file of rank 4 and stores its values, rounded to `dtype`, as f32.
static AttnStatus read_input(Tensor *tensor, const char *path, DType dtype) {
    Tensor file;
    AttnStatus status = npy_read(path, &file);
    if (status != ATTN_OK) {
        return status;
    }
    if (file.rank != 4) {
        char shape[96];
        status = attn_fail(ATTN_ERR_SHAPE,
                           "%s: shape %s has rank %d, must be 4: [batch][heads][len][dim]%s", path,
                           tensor_shape_text(&file, shape), file.rank,
                           file.rank == 3 ? "; array[None] adds an axis" : "");
    } else {
        status = tensor_convert(tensor, &file, DTYPE_F32);
    }
    tensor_free(&file);
    if (status == ATTN_OK) {
        tensor_round_to(tensor, dtype);
    }
    return status;
}

// Fails unless `axis` of a is as long as that of b.
static AttnStatus check_axis(const char *path_a, const Tensor *a, const char *path_b,
                             const Tensor *b, int axis) {
    static const char *const names[] = {"batch", "heads", "len", "dim"};
    if (a->dims[axis] == b->dims[axis]) {
        return ATTN_OK;
    }
    return attn_fail(ATTN_ERR_SHAPE, "%s: axis %d (%s) is %lld, but that of %s is %lld", path_a,
                     axis, names[axis], (long long)a->dims[axis], path_b, (long long)b->dims[axis]);
}

// Checks the relations between the three arrays.
static AttnStatus check_inputs(const Problem *problem, const Options *options) {
    const Tensor *q = &problem->q, *k = &problem->k;
    AttnStatus status = ATTN_OK;
    for (int axis = 0; axis < 4 && status == ATTN_OK; axis++) {
        status = check_axis(options->v, &problem->v, options->k, k, axis);
    }
    if (status == ATTN_OK) {
        status = check_axis(options->k, k, options->q, q, 0);
    }
    if (status == ATTN_OK) {
        status = check_axis(options->k, k, options->q, q, 3);
    }
    if (status == ATTN_OK && (k->dims[1] == 0 || q->dims[1] % k->dims[1] != 0)) {
        status = attn_fail(ATTN_ERR_SHAPE,
                           "%s: axis 1 (heads) is %lld, which does not divide that of %s, %lld",
                           options->k, (long long)k->dims[1], options->q, (long long)q->dims[1]);
    }
    return status;
}

static AttnStatus load_files(Problem *problem, const Options *options) {
    Tensor *tensors[] = {&problem->q, &problem->k, &problem->v};
    const char *paths[] = {options->q, options->k, options->v};
    for (int i = 0; i < 3; i++) {
        AttnStatus status = read_input(tensors[i], paths[i], options->dtype);
        if (status != ATTN_OK) {
            return status;
        }
    }
    AttnStatus status = check_inputs(problem, options);
    if (status != ATTN_OK) {
        return status;
    }
    problem->dtype = options->dtype;
    problem->shape = options->shape;
    problem->shape.batch = problem->q.dims[0];
    problem->shape.heads_q = problem->q.dims[1];
    problem->shape.heads_kv = problem->k.dims[1];
    problem->shape.len_q = problem->q.dims[2];
    problem->shape.len_kv = problem->k.dims[2];
    problem->shape.dim = problem->q.dims[3];
    status = attn_check_shape(&problem->shape);
    return status == ATTN_OK ? allocate_output(problem) : status;
}

AttnStatus problem_load(Problem *problem, const Options *options) {
    if (options->q == NULL) {
        return problem_random(problem, &options->shape, options->dtype, options->seed);
    }
    *problem = (Problem){0};
    return finish(problem, load_files(problem, options));
}

AttnStatus problem_save(const Problem *problem, const Options *options) {
    AttnStatus status = ATTN_OK;
    if (options->out != NULL) {
        Tensor rounded;
        status = tensor_convert(&rounded, &problem->o, problem->dtype);
        if (status == ATTN_OK) {
            status = npy_write(options->out, &rounded);
            tensor_free(&rounded);
        }
    }
    if (status == ATTN_OK && options->lse != NULL) {
        status = npy_write(options->lse, &problem->lse);
    }
    return status;
}

void problem_free(Problem *problem) {
    Tensor *tensors[] = {&problem->q, &problem->k, &problem->v, &problem->o, &problem->lse};
    for (int i = 0; i < 5; i++) {
        tensor_free(tensors[i]);
    }
    *problem = (Problem){0};
}
